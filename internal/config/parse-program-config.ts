import type { z } from 'zod';
import { describeShape } from '../errors/index.ts';

/**
 * The frozen configuration of a program, which another program of the same release writes as JSON. Throws an Error with a message
 * of one line.
 */
export function parseProgramConfig<T>(shape: z.ZodType<T>, text: string): Readonly<T> {
  const parsed = shape.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(describeShape(parsed.error));
  return Object.freeze(parsed.data);
}
