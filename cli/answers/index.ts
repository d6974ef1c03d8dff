/**
 * Prebuilt output of `--version`, every `--help` and the completion scripts, for a fast start. The build runs the program
 * once for each of them and embeds the output here. In a checkout there is no prebuilt output: the program creates it at each start.
 *
 *     args ─▶ readyAnswer ─▶ text: print it and exit, without loading the app
 *                       └──▶ undefined: load the app
 */
export { readyAnswer } from './ready-answer.ts';
