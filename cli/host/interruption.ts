/** SIGINT, SIGTERM, SIGHUP, or a closed standard output. */
export type InterruptionExit = 'interrupted' | 'terminated' | 'hungUp' | 'outputClosed';

/** The abort reason of a command that the user ended. Not a failure. */
export class Interruption extends Error {
  override readonly name = 'Interruption';
  readonly exit: InterruptionExit;

  constructor(exit: InterruptionExit) {
    super(exit);
    this.exit = exit;
  }
}
