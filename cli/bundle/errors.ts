import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const bundleMakingErrors = defineErrors({
  'bundlebuild-requirements': {
    fault: 'operator',
    exit: 'preflight',
    retryable: false,
    meaning: 'This machine lacks something that making a bundle needs. Nothing was changed.',
    fix: 'Run the command that the message names, then the same command again.',
  },
  'bundlebuild-toolchain': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'The Go toolchain that came is not the one whose hash is locked. It was not used.',
    fix: 'Run the same command again; if it stays so, the module proxy (GOPROXY) or something before it changes files.',
  },
  'bundlebuild-source-changed': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'Upstream publishes another hash for a file than the lock file holds. It was not fetched.',
    fix: 'A release must not change: find out why. To accept it, delete its line from the lock file.',
  },
  'bundlebuild-checksum': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'A file does not have the hash that its project publishes for it. It was not used.',
    fix: 'Run the same command again; if it stays so, something between here and there changes files.',
  },
  'bundlebuild-checksum-file': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'A checksum file of a project does not name the file that was looked for.',
    fix: 'Look at the address in the message: the release may not be complete yet.',
  },
  'bundlebuild-lock-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The lock file is not one.',
    fix: 'Restore it from version control, or delete it to lock anew.',
  },
  'bundlebuild-download': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'A file could not be fetched.',
    fix: 'Look at the address and the cause in the message, then run the same command again: it goes on where it stopped.',
  },
  'bundlebuild-archive': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'An archive lacks a file that it should have, or is damaged.',
    fix: 'The message names archive and file: upstream may have changed its layout.',
  },
  'bundlebuild-packages': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'Distribution packages that go into images could not be had, or lack a file.',
    fix: 'See that `apt-get update` works on this machine, then run the same command again.',
  },
  'bundle-not-found': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'There is no bundle for this version of Kubernetes on this machine.',
    fix: 'Run `cluster bundle build`.',
  },
});

export type BundleMakingErrorCode = keyof typeof bundleMakingErrors;

export class BundleMakingError extends errorClass(bundleMakingErrors) {}
