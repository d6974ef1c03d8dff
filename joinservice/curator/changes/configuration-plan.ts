import { verifyConfigurationChange, type JsonPath } from '../../../internal/config/index.ts';
import { unchanged, type Entry, type KeySpace, type Write } from '../../../internal/etcd/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { CONFIGURATION_KEY, records } from '../../../internal/records/index.ts';
import type { Call } from '../../../internal/rpc/index.ts';
import type { OwnerDocuments, Submission } from '../../ownerdocs/index.ts';
import type { UpdateConfigurationRequest } from '../../curatorproto/gen/curator_pb.js';
import { nameOfCaller, type Caller } from '../access/authorize-caller.ts';
import { CuratorError } from '../errors.ts';
import type { MutationPlan } from './mutations.ts';
import { ownerSignatureMissing, submitterOf, withDocuments } from './signed-changes.ts';
import { storedConfiguration } from './stored-configuration.ts';
import { refuseField } from '../nodes/node-wire.ts';

const MAX_CONFIGURATION_BYTES = 512 * 1024;

interface ConfigurationParts {
  readonly etcd: KeySpace;
  readonly clock: Clock;
  readonly ownerDocs: OwnerDocuments;
}

/** Replaces the configuration after it was verified as a whole: it must be valid and signed by an owner. @throws as `configurationChange` */
export async function planConfiguration(
  { etcd, clock, ownerDocs }: ConfigurationParts,
  { document, baseRevision, documents }: UpdateConfigurationRequest,
  call: Call<Caller>,
): Promise<MutationPlan> {
  const entry = await etcd.get(CONFIGURATION_KEY, { signal: call.signal });
  // Checked before the signatures, because a caller who lost a race has to make and sign the change again.
  verifyBase(entry, baseRevision);
  const submission = await ownerDocs.submission(documents, submitterOf(call));
  const change = configurationChange(entry, { document, baseRevision }, submission);
  const detail = { baseRevision: String(baseRevision), paths: change.paths.map((path) => path.join('.')) };
  if (change.paths.length === 0) return { when: [unchanged(change.entry)], then: [], detail };
  const by = { updatedMs: clock.nowMs(), updatedBy: nameOfCaller(call.peer) };
  const then = [configurationWrite(document, by)];
  return withDocuments({ when: [unchanged(change.entry)], then, detail }, submission);
}

/**
 * The stored entry and the changed paths, if this document may replace it.
 * @throws CuratorError, ConfigError, OwnerDocumentError
 */
export function configurationChange(
  entry: Entry | undefined,
  next: { readonly document: Uint8Array; readonly baseRevision: bigint },
  submission: Submission,
): { readonly entry: Entry; readonly paths: readonly JsonPath[] } {
  const { document, baseRevision } = next;
  if (document.length > MAX_CONFIGURATION_BYTES)
    refuseField('document', `${document.length} bytes, at most ${MAX_CONFIGURATION_BYTES}`);
  verifyBase(entry, baseRevision);
  const paths = verifyConfigurationChange(
    Buffer.from(storedConfiguration(entry).document).toString('utf8'),
    Buffer.from(document).toString('utf8'),
  );
  if (paths.length > 0 && !submission.coversConfiguration(document))
    throw ownerSignatureMissing('changing the configuration');
  return { entry, paths };
}

/** The etcd write that stores a configuration. */
export function configurationWrite(
  document: Uint8Array,
  by: { readonly updatedMs: number; readonly updatedBy: string },
): Write {
  const record = { version: 1 as const, document: Buffer.from(document).toString('base64'), ...by };
  return records.configuration.put(CONFIGURATION_KEY, record);
}

function verifyBase(entry: Entry | undefined, base: bigint): asserts entry is Entry {
  if (entry?.modRevision !== base) throw staleConfiguration(base, entry?.modRevision);
}

function staleConfiguration(base: bigint, current: bigint | undefined): CuratorError {
  return new CuratorError(
    'curator-configuration-stale',
    `cannot update the configuration from revision ${base}: its revision is ${current ?? 'none'}`,
    { details: { baseRevision: String(base), currentRevision: String(current ?? 0n) } },
  );
}
