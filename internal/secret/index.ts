/** Ground: values that never print themselves. */
export { Secret } from './secret.ts';
