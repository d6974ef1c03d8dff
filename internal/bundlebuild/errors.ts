import { defineErrors, errorClass, fault, retryable } from '../errors/index.ts';

/** The errors of building and fetching bundles. */
export const bundleBuildErrors = defineErrors({
  'bundlebuild-requirements': fault.operator.preflight(
    'Programs or libraries that are needed to build bundles are not installed on this machine. Nothing was changed.',
    'Install the packages named in the message, then run the same command again.',
  ),
  'bundlebuild-toolchain': retryable.peer.refused(
    'The downloaded Go toolchain does not have the pinned hash. It was not used.',
    'Run the same command again. If it fails again, check GOPROXY: the module proxy, or a proxy in front of it, changes files.',
  ),
  'bundlebuild-source-changed': fault.peer.refused(
    'The hash that an upstream project publishes for a release file differs from the hash in the lock file. The file was not downloaded.',
    'Ask the upstream project why a released file has changed. To accept the new hash, delete the line of the file from the lock file.',
  ),
  'bundlebuild-checksum': retryable.peer.refused(
    'A downloaded file does not have the hash that its project publishes. It was not used.',
    'Run the same command again. If it fails again, look for a proxy or mirror that changes files.',
  ),
  'bundlebuild-checksum-file': retryable.peer.refused(
    'The checksum file of an upstream project does not list the file, or lists it more than once.',
    'Open the address in the message: the release may not be complete yet.',
  ),
  'bundlebuild-lock-invalid': fault.operator.usage(
    'The lock file of upstream hashes cannot be parsed.',
    'Restore the lock file from version control, or delete the file: the next build then creates it from the hashes that are published at that time.',
  ),
  'bundlebuild-download': retryable.peer.unreachable(
    'A file could not be downloaded.',
    'Check that this machine reaches the address in the message, then run the same command again: it resumes the download.',
  ),
  'bundlebuild-archive': fault.peer.refused(
    'A downloaded archive is damaged or lacks an expected file.',
    'Compare the archive named in the message with the release notes of its project: the layout of the archive may have changed.',
  ),
  'bundlebuild-packages': retryable.peer.unreachable(
    'The Debian packages for container images could not be downloaded, or lack an expected file.',
    'Check that `apt-get update` succeeds on this machine, then run the same command again.',
  ),
});

/** A bundle could not be built or fetched. */
export class BundleBuildError extends errorClass(bundleBuildErrors) {}
