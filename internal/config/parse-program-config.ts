import { z } from 'zod';

/**
 * The frozen configuration of a program, which another program of the same release writes as JSON. Throws an Error with a message
 * of one line.
 */
export function parseProgramConfig<T>(shape: z.ZodType<T>, text: string): Readonly<T> {
  const parsed = shape.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(z.prettifyError(parsed.error).replaceAll('\n', ' '));
  return Object.freeze(parsed.data);
}
