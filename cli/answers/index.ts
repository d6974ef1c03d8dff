/**
 * What this program can say without thinking: `--version`, every `--help`, the completion scripts. The build runs the
 * program once for each of them and puts what it said in here, so it cannot drift from the commands; from a checkout
 * there is nothing here, and the program works each one out.
 *
 *     args ─▶ readyAnswer ─▶ text: print it, done; nothing else of the program has been loaded
 *                       └──▶ nothing: load the app
 */
export { readyAnswer } from './ready-answer.ts';
