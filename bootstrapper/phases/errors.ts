import { defineErrors, errorClass } from '../../internal/errors/index.ts';

const common = { fault: 'system', retryable: true } as const;
const again = 'the machine tries again by itself, and at once with the same `cluster init`.';

export const phasesErrors = defineErrors({
  'phases-disk-full': {
    ...common,
    exit: 'diskFull',
    meaning: 'A phase failed because a file system of the machine is full.',
    fix: `Free space on the file system named in the message (\`df -h\` on the machine); ${again}`,
  },
  'phases-read-only': {
    ...common,
    exit: 'readOnly',
    meaning: 'A phase failed because a file system of the machine cannot be written.',
    fix: `Look for disk errors in the kernel log of the machine (\`dmesg\`) and remount the file system writable; ${again}`,
  },
  'phases-port-in-use': {
    ...common,
    exit: 'port',
    meaning:
      'A phase failed because another program of the machine listens where a part of the cluster must.',
    fix: `Stop the program that listens there (\`ss -ltnp\` on the machine names it); ${again}`,
  },
});

export type PhasesErrorCode = keyof typeof phasesErrors;

export class PhasesError extends errorClass(phasesErrors) {}
