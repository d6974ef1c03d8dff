import { parseCopyStore, type CopyStore } from '../../../internal/backup/index.ts';
import { DiskStreams, readText } from '../../../internal/file/index.ts';
import {
  ObjectStore,
  ObjectStoreError,
  parseStoreCredentials,
  type StoreCredentials,
} from '../../../internal/objectstore/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { AppError } from '../../app/errors.ts';
import { layoutOf, readPrivateFile } from '../../workspace/index.ts';

const STORE_URL = /^s3:\/\/([^/]+)(?:\/(.*?))?\/?$/;

/** Flags of commands that use an S3-compatible store. */
export interface StoreFlags {
  /** "https://HOST[:PORT]". */
  readonly s3Endpoint?: string | undefined;
  readonly s3Region?: string | undefined;
  /** File with the CA certificates of the store (PEM). */
  readonly s3Ca?: string | undefined;
  /** File with the access key, in the format of AWS; default: that of the workspace. */
  readonly s3Credentials?: string | undefined;
}

/** Whether an argument names a place in a store: "s3://BUCKET/PREFIX". */
export function isStoreUrl(text: string | undefined): text is string {
  return text?.startsWith('s3://') === true;
}

/** @throws AppError `app-usage` if a flag of a store is given without a store */
export function refuseStoreFlags({ s3Endpoint, s3Region, s3Ca, s3Credentials }: StoreFlags): void {
  if ([s3Endpoint, s3Region, s3Ca, s3Credentials].every((flag) => flag === undefined)) return;
  throw new AppError('app-usage', 'the flags --s3-… are only for a target s3://BUCKET/PREFIX');
}

/** The store location that "s3://BUCKET/PREFIX" and the flags describe. */
export async function copyStoreFrom(
  { ports }: Pick<CommandContext, 'ports'>,
  url: string,
  { s3Endpoint, s3Region = 'us-east-1', s3Ca }: StoreFlags,
): Promise<CopyStore> {
  const [matched, bucket = '', prefix = ''] = STORE_URL.exec(url) ?? [];
  const refuse = (why: string): AppError => new AppError('app-usage', `${JSON.stringify(url)}: ${why}`);
  if (matched === undefined) throw refuse('expected s3://BUCKET or s3://BUCKET/PREFIX');
  if (s3Endpoint === undefined) throw refuse('--s3-endpoint is needed, such as https://s3.example.org:9000');
  const ca = s3Ca === undefined ? undefined : await readText(ports.files, s3Ca);
  if (s3Ca !== undefined && ca === undefined) throw refuse(`file ${s3Ca} of --s3-ca not found`);
  const place = { endpoint: s3Endpoint.replace(/\/$/, ''), region: s3Region, bucket, prefix };
  const { store, problem } = parseCopyStore(ca === undefined ? place : { ...place, ca });
  if (store === undefined) throw refuse(problem);
  return store;
}

/** The access key in the file of the flag or of the workspace. @throws ObjectStoreError, WorkspaceError `workspace-key-mode` */
export async function readStoreAccess(
  { ports, paths }: CommandContext,
  { s3Credentials = layoutOf(paths.workspace).backupCredentials }: StoreFlags,
): Promise<StoreCredentials> {
  const text = await readPrivateFile(ports.files, s3Credentials);
  if (text === undefined)
    throw new ObjectStoreError('objectstore-credentials-invalid', `file ${s3Credentials} not found`);
  return parseStoreCredentials(s3Credentials, text);
}

/** Opens the store at this location, with the access key of the caller. */
export async function openStore(
  context: CommandContext,
  target: CopyStore,
  flags: StoreFlags,
): Promise<ObjectStore> {
  const credentials = await readStoreAccess(context, flags);
  return new ObjectStore({ target, credentials, clock: context.ports.clock, streams: new DiskStreams() });
}
