import { z } from 'zod';

// Shapes that the facts of a cluster and those of a machine share.

/** Texts come from nodes and pods, so their length is limited to what a person can read. */
export const text = z.string().max(4_096);
export const name = z.string().max(512);
export const count = z.int().min(0);
export const timeMs = z.int();
export const number = z.number().min(0);

/**
 * A part of the facts: its value, or the error because of which it could not be collected. `codes` contains the codes
 * of this error and of its causes.
 */
export function part<T extends z.ZodType>(value: T) {
  return z.discriminatedUnion('ok', [
    z.object({ ok: z.literal(true), value }),
    z.object({ ok: z.literal(false), error: text, codes: z.array(name).max(32) }),
  ]);
}

/** Certificates by their path, with the end of their validity. */
export const certificates = z.array(z.object({ name, notAfterMs: timeMs })).max(256);

/** A check of `cluster preflight` that a machine does not pass. */
export const unmetRequirement = z.object({ code: name, subject: name, cause: text, isWarning: z.boolean() });

/** Size and use of a file system. */
export const fileSystem = z.object({
  name,
  capacityBytes: number,
  availableBytes: number,
  inodes: number.optional(),
  inodesFree: number.optional(),
});
