/**
 * From a command line to an exit code.
 *
 *     args ─▶ preparseArgs (global flags, command) ─▶ host ─▶ program (only that command) ─▶ handler ─▶ exit name
 *                                                      ▲                                       │ throws
 *                                                      └────────────── report ◀────────────────┘
 *
 * The contract that commands are written against is `command.ts`.
 */
export { COMMANDS, type CommandEntry } from './registry.ts';
export { runApp } from './run-app.ts';
