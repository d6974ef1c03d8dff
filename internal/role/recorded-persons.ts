import { z } from 'zod';
import { KUBERNETES_GROUPS } from './operator-role.ts';

/** The path at which the authorization webhook of a control plane serves `RecordedPersons` (GET). */
export const RECORDED_PERSONS_PATH = '/recorded-persons';

const PERSON_GROUPS = Object.values(KUBERNETES_GROUPS);

/**
 * A person whose requests the webhook does not deny, as their certificate for the Kubernetes API names them. The values contain neither
 * quotes nor spaces, so that expressions may contain them.
 */
const personShape = z.strictObject({
  /** The fingerprint of the key. */
  uid: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  user: z.string().regex(/^[a-z0-9._@-]{1,64}$/),
  group: z.string().refine((group) => PERSON_GROUPS.includes(group)),
});

const shape = z.strictObject({ version: z.literal(1), persons: z.array(personShape).max(1024) });

/** See `personShape`. */
export type RecordedPerson = Readonly<z.infer<typeof personShape>>;

/** Writes the answer of the webhook. */
export function renderRecordedPersons(persons: readonly RecordedPerson[]): string {
  return JSON.stringify({ version: 1, persons });
}

/** Parses the answer of the webhook. @throws for any other document */
export function parseRecordedPersons(text: string): readonly RecordedPerson[] {
  return shape.parse(JSON.parse(text)).persons;
}
