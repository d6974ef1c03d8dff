import type * as classes from './x509-classes.ts';

/** The library that writes certificates: see `loadX509()`. */
export type X509Library = typeof classes;

/**
 * Loads the library that writes certificates. It takes a fifth of the start of a program, and most commands only read
 * certificates, which Node does by itself.
 */
export function loadX509(): Promise<X509Library> {
  return import('./x509-classes.ts');
}
