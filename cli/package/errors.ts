import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** The errors of `cluster package`. */
export const packageErrors = defineErrors({
  'package-not-found': fault.operator.precondition(
    'A Debian package was not found, or no package was given to add to the repository. Nothing was changed.',
    'Add packages with `--deb FILE`. `npm run build` in a checkout builds them in dist/.',
  ),
  'package-damaged': fault.operator.usage(
    'A file is not a Debian package, or is damaged, or has an unknown compression.',
    'Build or download the package named in the message again, with the compression gzip or zstd (`dpkg-deb -Zgzip`). If it is in the directory pool of the repository, remove it there.',
  ),
  'package-sign-failed': retryable.operator.precondition(
    'gpg failed to sign the index of the repository. The index was not changed.',
    'Check that gpg is installed and that `gpg --list-secret-keys KEY` lists the key, unlock the key, then run the same command again.',
  ),
});

/** A Debian package or the repository could not be used. */
export class PackageError extends errorClass(packageErrors) {}
