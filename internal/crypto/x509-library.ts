import type * as X509 from '@peculiar/x509';

/**
 * Loads the library that writes certificates. It takes a fifth of the start of a program, and most commands only read
 * certificates, which Node does by itself.
 */
export async function loadX509(): Promise<typeof X509> {
  await import('reflect-metadata');
  return await import('@peculiar/x509');
}
