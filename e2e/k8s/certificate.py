"""A certificate for the stand-ins of the API server."""
import os
import subprocess


def make(folder, address):
    """Key and certificate for an address, good for itself alone; their paths."""
    key, certificate = os.path.join(folder, "api.key"), os.path.join(folder, "ca.crt")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2"]
    names = ["-subj", "/CN=kubernetes", "-addext", f"subjectAltName=IP:{address}", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(command + names, check=True, capture_output=True)
    os.chmod(certificate, 0o644)
    return key, certificate
