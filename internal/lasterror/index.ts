/** Domain layer: the line of a log in which a program says why it failed, for the agent (its services) and `cluster doctor` (pods). */
export { lastErrorLine } from './last-error-line.ts';
