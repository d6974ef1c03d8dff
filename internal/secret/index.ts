/** Ground layer: a wrapper for secret values that keeps them out of logs, JSON and error messages. */
export { Secret } from './secret.ts';
