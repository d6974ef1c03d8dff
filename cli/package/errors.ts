import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const packageErrors = defineErrors({
  'package-not-found': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'There is no Debian package to put into the repository. Nothing was changed.',
    fix: 'Name packages with `--deb FILE`; `npm run build` in a checkout makes them in dist/.',
  },
  'package-damaged': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'A file is no Debian package that this program can read, or it is damaged.',
    fix: 'Build or download the package named in the message again, and remove the damaged one from the repository’s pool directory.',
  },
  'package-sign-failed': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'gpg did not sign the repository’s index. The index without a signature was not put into place.',
    fix: 'See that gpg is installed and that `gpg --list-secret-keys KEY` shows the key; unlock it, then run the same command again.',
  },
});

export class PackageError extends errorClass(packageErrors) {}
