import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const keysErrors = defineErrors({
  'keys-still-accepted': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'A node was removed, and something of the cluster did not yet prove that it is gone; the message says what.',
    fix: "Run `cluster node remove` with the node's id, which the message names; it asks again.",
  },
  'keys-rotation-stalled': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'The keys that control planes share are being replaced, and for ten minutes that has come no further; the message says which phase it is and whom it waits for.',
    fix: 'Bring back the nodes that the message names, or remove those that will not come back: it goes on by itself; `cluster keys show` says how far it is, `cluster keys rotate` follows it.',
  },
  'keys-rotation-unsupported': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The control planes are of a version that cannot replace the keys that they share.',
    fix: 'Upgrade the agent on every node, then run the same command again.',
  },
});

export type KeysErrorCode = keyof typeof keysErrors;

export class KeysError extends CodedError<KeysErrorCode> {
  constructor(code: KeysErrorCode, message: string, options?: CodedErrorOptions) {
    super(keysErrors, code, message, options);
  }
}
