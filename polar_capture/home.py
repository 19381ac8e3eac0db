"""The `--home` folder: CA, secrets, spool and logs of one user's proxies.

    ca/             mitmproxy's confdir: mitmproxy-ca.pem (with the private key), mitmproxy-ca-cert.pem, …
    ca-bundle.pem   public roots + our CA: what harnesses are told to trust
    control-token   secret of the control host's guarded pages
    spool/          rows that wait for their database
    logs/           what private proxies, which `run` started, wrote on stderr

Folders are 0700 and secrets 0600: whoever reads the CA's key can read the traffic of every harness that trusts it.
"""

import hashlib
import os
import secrets
import shutil
import tempfile
from pathlib import Path

import msgspec

CA_BASENAME = "mitmproxy"
"""What mitmproxy names its files by, so that `mitmdump --set confdir=HOME/ca` uses the same CA."""


class HomeError(Exception):
    """The folder cannot be used; the message names path, cause and remedy."""


class Home(msgspec.Struct, frozen=True):
    """The paths inside one home folder, and the files that are made on first use. Every method raises HomeError."""

    path: Path

    @property
    def confdir(self) -> Path:
        return self.path / "ca"

    @property
    def ca(self) -> Path:
        """The CA's certificate alone, PEM."""
        return self.confdir / f"{CA_BASENAME}-ca-cert.pem"

    @property
    def ca_key(self) -> Path:
        return self.confdir / f"{CA_BASENAME}-ca.pem"

    @property
    def bundle(self) -> Path:
        return self.path / "ca-bundle.pem"

    def foreign_bundle(self, ca_pem: str) -> Path:
        """The bundle for a proxy with a CA that is not this folder's."""
        return self.path / f"ca-bundle-{hashlib.sha256(ca_pem.encode()).hexdigest()[:12]}.pem"

    @property
    def spool(self) -> Path:
        return self.path / "spool"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def folder(self, path: Path) -> Path:
        """`path`, made with its parents where missing (0700), and writable."""
        try:
            for missing in reversed([path, *path.parents]):
                if not missing.exists():
                    missing.mkdir(mode=0o700, exist_ok=True)
            if not path.is_dir():
                raise NotADirectoryError(20, "it is a file", str(path))
            if not os.access(path, os.W_OK | os.X_OK):
                raise PermissionError(13, "it is not writable", str(path))
        except OSError as error:
            raise HomeError(
                f"cannot use the folder {path}: {error.strerror}; give --home DIR (or POLAR_HOME) a writable place"
            ) from error
        return path

    def control_token(self) -> str:
        """The secret of the guarded control pages: POLAR_CONTROL_TOKEN, else the one kept in the folder."""
        token = os.environ.get("POLAR_CONTROL_TOKEN") or self.kept_token()
        if token is None:
            file = self.folder(self.path) / "control-token"
            token = _keep_secret(file)
        return token

    def kept_token(self) -> str | None:
        """The control token of an earlier start, or None."""
        file = self.path / "control-token"
        try:
            return file.read_text().strip() or None
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise HomeError(f"cannot read the control token {file}: {error}; remove it to get a new one") from error

    def make_ca(self) -> Path:
        """The CA's certificate file, made by mitmproxy where it is missing (Python ≥ 3.13 with mitmproxy)."""
        if self.ca.exists() and self.ca_key.exists():
            return self.ca
        try:
            from mitmproxy import certs
        except ImportError as error:
            raise HomeError(
                f"there is no CA in {self.confdir} yet, and this Python cannot make one (that needs Python 3.13 or "
                "newer with mitmproxy): start `serve` or `env` there once, or name the proxy's folder with --home"
            ) from error
        self.folder(self.path)
        try:
            # Made beside and renamed as a whole: two proxies that start together must not end with half of each CA.
            draft = Path(tempfile.mkdtemp(prefix="ca-draft-", dir=self.path))
            try:
                certs.CertStore.create_store(draft, CA_BASENAME, 2048)
                draft.rename(self.confdir)
            except OSError:
                if not (self.ca.exists() and self.ca_key.exists()):
                    raise
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        except OSError as error:
            raise HomeError(
                f"cannot make a CA in {self.confdir}: {error.strerror or error}; "
                "if an incomplete CA is there, remove that folder"
            ) from error
        return self.ca

    def new_log(self, name: str, keep: int = 50) -> Path:
        """A fresh log file of mode 0600 in `logs/`; the oldest beyond `keep` are removed."""
        folder = self.folder(self.logs)
        try:
            old = sorted(folder.glob("*.log"), key=lambda file: file.stat().st_mtime)
            for file in old[: max(0, len(old) - keep + 1)]:
                file.unlink(missing_ok=True)
            file = folder / f"{name}.log"
            file.unlink(missing_ok=True)
            file.touch(mode=0o600)
        except OSError as error:
            raise HomeError(
                f"cannot write logs in {folder}: {error.strerror}; give --home DIR another place"
            ) from error
        return file


def _keep_secret(file: Path) -> str:
    """A new secret, kept in `file` (0600). Of two processes that do this at once, one writes and both get the same."""
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as handle:
            handle.write(secrets.token_urlsafe(32) + "\n")
        try:
            os.link(draft, file)
        except FileExistsError:
            if not file.read_text().strip():
                draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)
        return file.read_text().strip()
    except OSError as error:
        raise HomeError(
            f"cannot write the control token {file}: {error.strerror}; give --home DIR another place"
        ) from error
