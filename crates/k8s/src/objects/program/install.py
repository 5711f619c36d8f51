# Copies the program from the volume to this pod's own disk and checks it. Arguments: source, target, SHA-256, seconds to wait.
import hashlib, os, subprocess, sys, time

source, target, wanted, patience = sys.argv[1:]
end = time.monotonic() + int(patience)
while not os.path.exists(source):
    if time.monotonic() > end:
        print(f"{source} is not on the volume; `canoe job upload DIR` brings it there", flush=True)
        sys.exit(75)
    time.sleep(0.5)
found, part = hashlib.sha256(), target + ".part"
with open(source, "rb") as old, open(part, "wb") as new:
    while piece := old.read(1 << 20):
        found.update(piece)
        new.write(piece)
if found.hexdigest() != wanted:
    print(f"{source} has SHA-256 {found.hexdigest()} instead of {wanted}: it is damaged; `canoe job upload DIR` repairs it", flush=True)
    sys.exit(78)
os.chmod(part, 0o755)
os.replace(part, target)
ran = subprocess.run([target, "--version"], capture_output=True, text=True)
if ran.returncode != 0:
    print(f"the program does not run in this image: {(ran.stderr.strip().splitlines() or ['it ends at once'])[-1]}", flush=True)
    sys.exit(78)
