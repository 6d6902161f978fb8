exports.square = (n) => n * n;
