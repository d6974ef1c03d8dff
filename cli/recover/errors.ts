import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const recoverErrors = defineErrors({
  'recover-refused': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The quorum is not recovered from this machine; nothing was changed.',
    fix: 'The message says why: bring the other control planes back, or run the command on the one it names.',
  },
  'recover-not-confirmed': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning:
      'A recovery loses what only the other control planes have, and that was not confirmed; nothing was changed.',
    fix: 'Read what would be lost, see that the other control planes are off, then repeat the command with --confirm and the name of the cluster.',
  },
  'recover-failed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'The order to recover the quorum was given up by the machine; the message says why.',
    fix: 'See `journalctl -u bootstrapper` on the machine and remove the cause, then give the order again with --confirm. What etcd had is untouched, or kept in /var/lib/cluster/consensus/recovery.',
  },
  'recover-timeout': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The recovery was ordered, but etcd does not serve in a new epoch yet.',
    fix: 'It goes on by itself; run `cluster recover quorum` again to see where it stands, and `journalctl -u bootstrapper` for its log.',
  },
});

export type RecoverErrorCode = keyof typeof recoverErrors;

export class RecoverError extends errorClass(recoverErrors) {}
