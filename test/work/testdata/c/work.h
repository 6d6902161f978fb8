long work(int threads);
long numbers(int n);
