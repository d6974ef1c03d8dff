/** Ctrl-C, a request to end, a closed terminal, or nobody who reads what the command prints. */
export type InterruptionExit = 'interrupted' | 'terminated' | 'hungUp' | 'outputClosed';

/** The reason of the command's signal: somebody wants this program to end. Not a failure. */
export class Interruption extends Error {
  override readonly name = 'Interruption';
  readonly exit: InterruptionExit;

  constructor(exit: InterruptionExit) {
    super(exit);
    this.exit = exit;
  }
}
