"""Images made ready for training by several processes."""

import functools
import io
import multiprocessing

from paddle.utils.image_util import Image, ImageTransformer, np

try:
    import cv2
except ImportError:
    cv2 = None


class _Transformer(ImageTransformer):
    """Sizes, crops and mirrors; `open_image` and `resized` are those of a library."""

    def __init__(self, min_size=None, crop_size=None, transpose=(2, 0, 1), channel_swap=None, mean=None, is_train=True,
                 is_color=True):
        ImageTransformer.__init__(self, transpose, channel_swap, mean, is_color)
        self.min_size = min_size
        self.crop_size = crop_size
        self.is_train = is_train

    def resize(self, im, min_size):
        """The image with its shorter side `min_size` long."""
        height, width = self.sides(im)
        shorter = min(height, width)
        return self.resized(im, min_size * height // shorter, min_size * width // shorter)

    def crop_and_flip(self, im):
        """A crop of an array: anywhere and perhaps mirrored for training, from the middle otherwise."""
        rows, columns = im.shape[0] - self.crop_size, im.shape[1] - self.crop_size
        top, left = rows // 2, columns // 2
        if self.is_train:
            top, left = np.random.randint(0, rows + 1), np.random.randint(0, columns + 1)
        im = im[top:top + self.crop_size, left:left + self.crop_size]
        return im[:, ::-1] if self.is_train and np.random.randint(2) == 0 else im

    def transform(self, im):
        """The numbers of an image for a network."""
        im = np.array(self.resize(im, self.min_size), dtype=np.float32)
        return self.transformer(self.crop_and_flip(im))

    def load_image_from_string(self, data):
        """An image from the contents of a file."""
        return self.open_image(data.encode('latin-1') if isinstance(data, str) else data)

    def load_image_from_file(self, file):
        """An image from a file."""
        with open(file, 'rb') as source:
            return self.open_image(source.read())

    def transform_from_string(self, data):
        """The numbers of an image from the contents of a file."""
        return self.transform(self.load_image_from_string(data))

    def transform_from_file(self, file):
        """The numbers of an image from a file."""
        return self.transform(self.load_image_from_file(file))


class CvTransformer(_Transformer):
    """With OpenCV."""

    def open_image(self, data):
        """An image from the bytes of a file."""
        return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR if self.is_color else cv2.IMREAD_GRAYSCALE)

    def sides(self, im):
        """Height and width."""
        return im.shape[:2]

    def resized(self, im, height, width):
        """The image in another size."""
        return cv2.resize(im, (width, height), interpolation=cv2.INTER_CUBIC)


class PILTransformer(_Transformer):
    """With Pillow."""

    def open_image(self, data):
        """An image from the bytes of a file."""
        return Image.open(io.BytesIO(data))

    def sides(self, im):
        """Height and width."""
        return im.size[1], im.size[0]

    def resized(self, im, height, width):
        """The image in another size."""
        return im.resize((width, height), Image.ANTIALIAS)


def job(is_img_string, transformer, sample):
    """The numbers and the label of one sample."""
    data, label = sample
    if is_img_string:
        return transformer.transform_from_string(data), label
    return transformer.transform_from_file(data), label


class MultiProcessImageTransformer(object):
    """Makes images ready in `procnum` processes; `is_img_string` says whether data are contents or names of files."""

    def __init__(self, procnum=10, resize_size=None, crop_size=None, transpose=(2, 0, 1), channel_swap=None, mean=None,
                 is_train=True, is_color=True, is_img_string=True):
        self.procnum = procnum
        self.pool = multiprocessing.Pool(procnum)
        self.is_img_string = is_img_string
        kind = PILTransformer if cv2 is None else CvTransformer
        self.transformer = kind(resize_size, crop_size, transpose, channel_swap, mean, is_train, is_color)

    def run(self, data, label):
        """Pairs of numbers and label, in order."""
        ready = functools.partial(job, self.is_img_string, self.transformer)
        return self.pool.imap(ready, zip(data, label), chunksize=100 * self.procnum)
