import { z } from 'zod';
import { describeShape } from '../errors/index.ts';

const MAX_URL = 256;
/** Enough for three certificates of a usual size, and small enough for the header of each backup. */
const MAX_CA_CHARS = 6 * 1024;
const ENDPOINT = /^https?:\/\/(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(?::([0-9]{1,5}))?$/;
/** Characters that need no encoding in a URL, so that every store computes the same signature. */
const PREFIX = /^(?!\.{1,2}(\/|$))[\w.-]+(\/(?!\.{1,2}(\/|$))[\w.-]+)*$/;

/**
 * The Kubernetes Secret from which control planes read the access key of the store. Its value is an AWS credentials
 * file.
 */
export const COPY_STORE_SECRET = {
  namespace: 'kube-system',
  name: 'cluster-backup-store',
  key: 'credentials',
} as const;

interface StorePlace {
  readonly endpoint: string;
  readonly bucket: string;
  readonly prefix: string;
}

/** "https://HOST[:PORT]" in lower case, without path, user or query. */
const endpoint = z.string().refine((text) => {
  const [, port = '1'] = ENDPOINT.exec(text) ?? ['', '0'];
  return Number(port) >= 1 && Number(port) <= 65_535;
}, 'expected https://HOST or https://HOST:PORT, without a path');

/** A location in an S3-compatible store, and how nodes reach and trust the store. The access key is not part of it. */
export const copyStoreShape = z
  .strictObject({
    endpoint,
    region: z.string().regex(/^[a-z0-9-]{1,64}$/, 'expected a region such as us-east-1'),
    bucket: z.string().regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'expected the name of a bucket'),
    /** Prefix of the object keys, without a slash at its start and end; empty: no prefix. */
    prefix: z
      .string()
      .refine(
        (text) => text === '' || PREFIX.test(text),
        'expected parts of A-Z a-z 0-9 . _ - between slashes',
      ),
    /** CA certificates (PEM) that verify the certificate of the store, in place of the CAs that the machine trusts. */
    ca: z
      .string()
      .max(MAX_CA_CHARS, `expected at most ${MAX_CA_CHARS} characters`)
      .startsWith('-----BEGIN CERTIFICATE-----', 'expected certificates in PEM')
      .exactOptional(),
  })
  .refine((store) => urlOfStore(store).length <= MAX_URL, `expected at most ${MAX_URL} characters in all`);

/** See `copyStoreShape`. */
export type CopyStore = z.infer<typeof copyStoreShape>;

/** Parses a location in a store that a person wrote; `problem` names the property that is not valid. */
export function parseCopyStore(
  place: unknown,
):
  | { readonly store: CopyStore; readonly problem?: never }
  | { readonly store?: never; readonly problem: string } {
  const { data: store, error } = copyStoreShape.safeParse(place);
  if (store !== undefined) return { store };
  return { problem: describeShape(error) };
}

/** "https://store.example.org:9000/BUCKET/PREFIX": names the location unambiguously. */
export function urlOfStore({ endpoint: at, bucket, prefix }: StorePlace): string {
  return [at, bucket, ...(prefix === '' ? [] : [prefix])].join('/');
}

/** Prefix of the object keys of one node's backups, with a slash at its end. */
export function copyPrefixOf(
  { prefix }: Pick<StorePlace, 'prefix'>,
  clusterId: string,
  nodeId: string,
): string {
  return [...(prefix === '' ? [] : [prefix]), clusterId, nodeId, ''].join('/');
}
