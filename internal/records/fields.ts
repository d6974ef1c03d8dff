import { z } from 'zod';

/** The version of a record. */
export const version = z.literal(1);
/** Bytes, in base64. */
export const bytes = z.base64();
/** A SHA-256, in lower-case hex. */
export const hex = z.string().regex(/^[0-9a-f]{64}$/);
