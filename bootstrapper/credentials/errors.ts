import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Codes of this directory's errors, with meaning and fix. */
export const credentialsErrors = defineErrors({
  'credentials-share-secret-other': fault.operator.precondition(
    'The secret for disk shares on this control plane (`/var/lib/cluster/keys/disk-shares.key`) is another one than that of the control plane that issued its ticket. Workers get a wrong cluster share from one of them, with which their state disks do not open.',
    'Find out which secret is wrong: compare the SHA-256 of the file on all control planes. On those with the wrong one, delete the file and restart bootstrapper.service: the control plane gets the secret with its next ticket. If nobody wrote the file, treat the control plane as broken into.',
  ),
  'credentials-share-secret-malformed': fault.peer.refused(
    'The ticket or the init contains a malformed secret for disk shares. This control plane has not stored it.',
    'Compare the versions of the control planes. On the control plane that issued the ticket, check `/var/lib/cluster/keys/disk-shares.key`: 64 hexadecimal digits.',
  ),
});

/** An error with a code of this directory. */
export class CredentialsError extends errorClass(credentialsErrors) {}
