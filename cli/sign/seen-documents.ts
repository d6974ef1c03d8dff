import { join } from 'node:path';
import { z } from 'zod';
import { canonicalJson } from '../../internal/crypto/index.ts';
import { parseJson, readText, type FilePort } from '../../internal/file/index.ts';
import { floorOf, parseDocument, type Floor } from '../../internal/ownerdocument/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readCaller, type Caller } from '../cluster/index.ts';
import type { SignedRecords } from './signed-records.ts';

const MAX_BYTES = 64 * 1024;
const KINDS = ['owners', 'policy', 'operators'] as const;
const floor = z.strictObject({ serial: z.int().positive(), sha256: z.string() }).optional();
const shape = z.strictObject({ version: z.literal(1), owners: floor, policy: floor, operators: floor });

type Seen = Readonly<Partial<Record<(typeof KINDS)[number], Floor | undefined>>>;
type Files = Pick<FilePort, 'read' | 'makeDirectory' | 'writeAtomic'>;

/**
 * Saves which documents about the whole cluster are the newest ones on its record. They replace those seen before, because a recovery of
 * the quorum may lose documents.
 */
export async function saveSeenDocuments(files: Files, member: Caller, records: SignedRecords): Promise<void> {
  const newest = KINDS.flatMap((kind) => {
    const document = newestOf(records, kind);
    return document === undefined ? [] : [[kind, document] as const];
  });
  await save(files, member, Object.fromEntries(newest));
}

/** Saves documents that the cluster has accepted from this workspace. */
export async function saveSubmittedDocuments(
  context: CommandContext,
  documents: readonly Uint8Array[],
): Promise<void> {
  if (documents.length === 0) return;
  const { files } = context.ports;
  const member = await readCaller(context);
  const submitted = documents.flatMap((bytes) => {
    const document = parseDocument(bytes);
    const kind = KINDS.find((each) => each === document.kind);
    return kind === undefined ? [] : [[kind, floorOf(document)] as const];
  });
  const before = await read(files, member);
  await save(files, member, { ...(before === 'damaged' ? {} : before), ...Object.fromEntries(submitted) });
}

/**
 * Why documents that somebody put into a file are not the newest ones: a document that this workspace has seen on the record of the
 * cluster is missing, or an older one is in its place. undefined if nothing is missing.
 */
export async function whyOutdated(
  files: Pick<FilePort, 'read'>,
  member: Caller,
  records: SignedRecords,
): Promise<string | undefined> {
  const seen = await read(files, member);
  if (seen === 'damaged')
    return `${pathOf(member)} is damaged: it has the documents that this workspace has seen`;
  const missing = KINDS.find((kind) => {
    const last = seen[kind];
    if (last === undefined) return false;
    // Each set of owners leads to the next one, so a set that was seen has to be among them. Who signed it may be no owner any more.
    if (kind === 'owners') return !records.everSigned.some(({ document }) => document.sha256 === last.sha256);
    const { serial = 0, sha256 = '' } = newestOf(records, kind) ?? {};
    return serial < last.serial || (serial === last.serial && sha256 !== last.sha256);
  });
  return (
    missing && `it leaves out the ${missing} with serial ${seen[missing]?.serial ?? 0}, which is on record`
  );
}

function newestOf(records: SignedRecords, kind: (typeof KINDS)[number]): Floor | undefined {
  return records.documents
    .filter((each) => each.kind === kind)
    .map((each) => floorOf(each))
    .reduce<Floor | undefined>((last, each) => (each.serial > (last?.serial ?? 0) ? each : last), undefined);
}

async function read(files: Pick<FilePort, 'read'>, member: Caller): Promise<Seen | 'damaged'> {
  const text = await readText(files, pathOf(member), MAX_BYTES);
  if (text === undefined) return {};
  const { data } = shape.safeParse(parseJson(text));
  if (data === undefined) return 'damaged';
  const { owners, policy, operators } = data;
  return { owners, policy, operators };
}

async function save(files: Files, member: Caller, seen: Seen): Promise<void> {
  const path = pathOf(member);
  if (canonicalJson(seen) === canonicalJson(await read(files, member))) return;
  await files.makeDirectory(member.directory);
  await files.writeAtomic(path, `${JSON.stringify({ version: 1, ...seen })}\n`);
}

function pathOf({ directory }: Caller): string {
  return join(directory, 'seen-documents.json');
}
