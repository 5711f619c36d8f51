"""Batches of images for classification, from a folder per class."""

import io
import os
import random

from paddle.utils import preprocess_util
from paddle.utils.image_util import Image, crop_img, np, resize_image  # noqa: F401


class DiskImage(object):
    """An image in a file, read when it is first needed, with its shorter side `target_size` long."""

    def __init__(self, path, target_size):
        self.path = path
        self.target_size = target_size
        self.img = None

    def read_image(self):
        """Reads the file."""
        if self.img is None:
            with Image.open(self.path) as img:
                self.img = resize_image(img, self.target_size)

    def convert_to_array(self):
        """The numbers, channels first."""
        self.read_image()
        found = np.array(self.img)
        return np.transpose(found, (2, 0, 1)) if found.ndim == 3 else found

    def convert_to_paddle_format(self):
        """The bytes of a JPEG file."""
        self.read_image()
        out = io.BytesIO()
        self.img.save(out, 'jpeg')
        return out.getvalue()


class ImageClassificationDatasetCreater(preprocess_util.DatasetCreater):
    """Reads images of one size and writes their mean into the meta file."""

    def __init__(self, data_path, target_size, color=True):
        preprocess_util.DatasetCreater.__init__(self, data_path)
        self.target_size = target_size
        self.color = color
        self.keys = ['images', 'labels']
        self.permute_key = 'labels'

    def create_meta_file(self, data):
        """Writes the mean image of the training data, sizes, and the number of classes."""
        total = np.zeros(((3,) if self.color else ()) + (self.target_size, self.target_size))
        for image, _ in data.data:
            total += crop_img(image.convert_to_array(), self.target_size, self.color)
        preprocess_util.save_file({
            'data_mean': (total / max(1, len(data.data))).astype('int32').flatten(), 'image_size': self.target_size,
            'mean_image_size': self.target_size, 'num_classes': self.num_classes, 'color': self.color,
        }, os.path.join(self.output_path, self.meta_filename))

    def create_dataset_from_list(self, path):
        """From a file with an image and the name of its class in each line."""
        labels, data = {}, []
        with open(path) as lines:
            for line in filter(str.strip, lines):
                place, name = line.split()[:2]
                data.append(self._sample(place, labels.setdefault(name, len(labels)), name))
        return preprocess_util.Dataset(data, self.keys), labels

    def create_dataset_from_dir(self, path):
        """From a folder with a folder of images per class."""
        labels = preprocess_util.get_label_set_from_dir(path)
        data = [self._sample(place, number, name) for name, number in labels.items()
                for place in preprocess_util.list_images(os.path.join(path, name))]
        random.shuffle(data)
        return preprocess_util.Dataset(data, self.keys), labels

    def _sample(self, place, number, name):
        return DiskImage(place, self.target_size), preprocess_util.Label(number, name)
