/** The reason of the command's signal: somebody wants this program to end. Not a failure. */
export class Interruption extends Error {
  override readonly name = 'Interruption';
  readonly exit: 'interrupted' | 'terminated';

  constructor(exit: 'interrupted' | 'terminated') {
    super(exit);
    this.exit = exit;
  }
}
