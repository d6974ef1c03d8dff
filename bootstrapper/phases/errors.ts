import { defineErrors, errorClass, retryable } from '../../internal/errors/index.ts';

const again = 'the machine retries automatically, and at once when `cluster init` is run again.';

/** Codes of this directory's errors, with meaning and fix. */
export const phasesErrors = defineErrors({
  'phases-disk-full': retryable.system.diskFull(
    'A file system of the machine is full.',
    `Free space on that file system (\`df -h\` on the machine); ${again}`,
  ),
  'phases-read-only': retryable.system.readOnly(
    'A file system of the machine is read-only.',
    `Look for disk errors in the kernel log (\`dmesg\` on the machine) and remount the file system writable; ${again}`,
  ),
  'phases-port-in-use': retryable.system.port(
    'Another program on the machine listens on a port that the cluster needs.',
    `Stop that program (\`ss -ltnp\` on the machine shows it); ${again}`,
  ),
});

/** A code of this directory's errors. */
export type PhasesErrorCode = keyof typeof phasesErrors;

/** An error with a code of this directory. */
export class PhasesError extends errorClass(phasesErrors) {}
