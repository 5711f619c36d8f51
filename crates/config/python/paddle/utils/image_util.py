"""Images as arrays: sizes, crops, mirrors, means. Colour images have the shape (channels, height, width)."""

import io

from paddle.utils.needed import needed

# Providers take both from here with `from paddle.utils.image_util import *`.
np = needed('numpy', 'numpy')
Image = needed('PIL.Image', 'pillow')
if not hasattr(Image, 'ANTIALIAS'):
    Image.ANTIALIAS = Image.LANCZOS  # its name before Pillow 10


def resize_image(img, target_size):
    """The image with its shorter side `target_size` long."""
    scale = target_size / float(min(img.size))
    return img.resize(tuple(int(side * scale + 0.5) for side in img.size), Image.ANTIALIAS)


def flip(im):
    """The mirror image."""
    return im[..., ::-1]


def crop_img(im, inner_size, color=True, test=True):
    """A square of `inner_size` from an image, which is padded with zeros if it is smaller.

    For tests from the middle; for training from anywhere, and mirrored half of the time.
    """
    im = im if color else im.astype('float32')
    rows, columns = im.shape[-2:]
    height, width = max(inner_size, rows), max(inner_size, columns)
    padded = np.zeros(((3,) if color else ()) + (height, width))
    top, left = (height - rows) // 2, (width - columns) // 2
    padded[..., top:top + rows, left:left + columns] = im
    if test:
        top, left = (height - inner_size) // 2, (width - inner_size) // 2
    else:
        top = np.random.randint(0, height - inner_size + 1)
        left = np.random.randint(0, width - inner_size + 1)
    found = padded[..., top:top + inner_size, left:left + inner_size]
    return flip(found) if not test and np.random.randint(2) == 0 else found


def decode_jpeg(jpeg_string):
    """The array of an image file's contents."""
    data = jpeg_string.encode('latin-1') if isinstance(jpeg_string, str) else jpeg_string
    found = np.array(Image.open(io.BytesIO(data)))
    return np.transpose(found, (2, 0, 1)) if found.ndim == 3 else found


def preprocess_img(im, img_mean, crop_size, is_train, color=True):
    """A crop without the mean, as one row of numbers."""
    return (crop_img(im.astype('float32'), crop_size, color, not is_train) - img_mean).flatten()


def load_meta(meta_path, mean_img_size, crop_size, color=True):
    """The middle of the mean image that a meta file holds."""
    mean = np.load(meta_path, allow_pickle=True, encoding='latin1')['data_mean']
    shape = ((3,) if color else ()) + (mean_img_size, mean_img_size)
    if mean.size != int(np.prod(shape)):
        raise ValueError('%s has a mean of %d values, but an image has %s' % (meta_path, mean.size, shape))
    border = (mean_img_size - crop_size) // 2
    inner = slice(border, border + crop_size)
    return mean.reshape(shape)[..., inner, inner].astype('float32')


def load_image(img_path, is_color=True):
    """An image from a file."""
    img = Image.open(img_path)
    img.load()
    return img


def oversample(img, crop_dims):
    """Ten crops of every (height, width, channels) image: corners, middle, and the mirrors of these five."""
    high, wide = crop_dims
    crops = []
    for im in img:
        rows, columns = im.shape[0] - high, im.shape[1] - wide
        places = [(0, 0), (0, columns), (rows, 0), (rows, columns), (int(rows / 2.0), int(columns / 2.0))]
        found = [im[top:top + high, left:left + wide, :] for top, left in places]
        crops += found + [each[:, ::-1, :] for each in found]
    return np.array(crops, dtype=np.float32)


class ImageTransformer(object):
    """Brings arrays of images into the order and range that a network wants."""

    def __init__(self, transpose=None, channel_swap=None, mean=None, is_color=True):
        self.is_color = is_color
        self.set_transpose(transpose)
        self.set_channel_swap(channel_swap)
        self.set_mean(mean)

    def _order(self, order):
        if order is not None and self.is_color and len(order) != 3:
            raise ValueError('a colour image has three axes and channels, not %d' % len(order))
        return order

    def set_transpose(self, order):
        """The order of the axes; (2, 0, 1) puts channels first."""
        self.transpose = self._order(order)

    def set_channel_swap(self, order):
        """The order of the channels."""
        self.channel_swap = self._order(order)

    def set_mean(self, mean):
        """What is subtracted: one number per channel, or an image."""
        if mean is not None and mean.ndim == 1:
            mean = mean[:, np.newaxis, np.newaxis]
        elif mean is not None and self.is_color and mean.ndim != 3:
            raise ValueError('the mean of a colour image has one or three dimensions, not %d' % mean.ndim)
        self.mean = mean

    def transformer(self, data):
        """The array in its new order, without the mean."""
        if self.transpose is not None:
            data = data.transpose(self.transpose)
        if self.channel_swap is not None:
            data = data[list(self.channel_swap), :, :]
        if self.mean is not None:
            data = data - self.mean
        return data
