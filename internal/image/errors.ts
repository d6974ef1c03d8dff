import { defineErrors, errorClass, fault, retryable } from '../errors/index.ts';

const AGAIN = 'Run the same command again.';

/** Errors of `cluster image build`. */
export const imageErrors = defineErrors({
  'image-lock': fault.system.internal(
    'The list of pinned packages of this release is malformed.',
    'Install the release again. In a checkout, write the list again with `node .ci/image-packages.ts`.',
  ),
  'image-package-missing': retryable.operator.precondition(
    'A pinned Debian package could not be downloaded. The archive keeps only the newest version of a package.',
    'Add a snapshot of the archive to the package sources of this machine, or put the file into a directory and name it with `--packages`.',
  ),
  'image-package-damaged': fault.operator.refused(
    'A Debian package has another hash than this release requires.',
    'Delete the file named in the message, and find out where it came from.',
  ),
  'image-tree': fault.system.internal(
    'The files of the packages contradict each other, or a file that the image needs is missing.',
    'Report this error with its text. The cause is in the pinned packages, not in this machine.',
  ),
  'image-shell': fault.system.internal(
    'A package contains a shell or a remote login, which an image must not have.',
    'Report this error with its text. The cause is in the pinned packages, not in this machine.',
  ),
  'image-pe': fault.system.internal(
    'The boot stub or the kernel is not an EFI program of the expected form.',
    'Report this error with its text. The cause is in the pinned packages, not in this machine.',
  ),
  'image-too-large': fault.operator.usage(
    'The files of the boot partition do not fit. Its size is fixed, with room for two images.',
    'Build the image with a smaller agent package (`--agent`).',
  ),
  'image-option': fault.operator.usage(
    'An option of `cluster image build` has an invalid value.',
    `Correct the option named in the message. ${AGAIN}`,
  ),
});

/** An image could not be built. */
export class ImageError extends errorClass(imageErrors) {}
