import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Errors of `cluster support`. */
export const supportErrors = defineErrors({
  'support-file-exists': fault.operator.precondition(
    'The file or directory to write exists already. It was not changed.',
    'Use another name, or delete the file first.',
  ),
  'support-recipient-missing': fault.operator.usage(
    'There is no recovery key to encrypt the support bundle to: this workspace has no owner key, or this machine has no state disk whose recovery keys the owner has named.',
    'Pass the recovery key of each person who may open the bundle: --recipient age1…. `cluster support recipient` prints it in the workspace of an owner.',
  ),
  'support-not-root': fault.operator.precondition(
    'The files of this machine can be read by root only.',
    'Run the command as root.',
  ),
  'support-key-refused': fault.operator.refused(
    'The support bundle was encrypted to other keys.',
    'Use the workspace of the owner who made the bundle, or name the file of a recovery key with --recovery-key.',
  ),
  'support-file-malformed': fault.peer.refused(
    'The file is not a support bundle, or it was changed or cut.',
    'Ask for the file again and compare its SHA-256.',
  ),
  'support-file-version': fault.operator.precondition(
    'The support bundle was made by another version of this program.',
    'Open the bundle with the version of this program that the message names.',
  ),
});

/** A support bundle could not be made or opened. */
export class SupportError extends errorClass(supportErrors) {}
