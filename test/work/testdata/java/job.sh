# Compile, pack and run; then what does not compile.
javac -d classes Job.java
jar --create --date=2020-01-01T00:00:00Z --file job.jar --main-class Job -C classes .
status=0
java -jar job.jar || status=$?
echo "status $status"
echo 'class Bad { int x = missing; }' >Bad.java
javac -d classes Bad.java 2>&1 || exit 24
