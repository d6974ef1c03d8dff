import type { KeySpace, Member } from '../../internal/etcd/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { KeySigner } from '../../internal/pki/index.ts';
import { NODES_PREFIX, records } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { judge, MANNERS, type Door, type DoorKind, type Verdict } from './doors.ts';
import { ImpostorError } from './errors.ts';
import { findDoors } from './find-doors.ts';
import { knock } from './knock.ts';
import {
  AUTHORITIES,
  AUTHORITY_OF,
  makePaper,
  type Authority,
  type Paper,
  type PaperName,
} from './papers.ts';

const MAX_PEM_BYTES = 64 * 1024;
/** `nodeIdOf` (internal/pki). */
const NODE_ID = /^node-[0-9a-f]{32}$/;
const AT_ONCE = 8;

interface PairFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

export interface ImpostorPorts {
  /** The cluster's records: linearizable reads. */
  readonly etcd: KeySpace;
  readonly listMembers: (signal: AbortSignal) => Promise<readonly Member[]>;
  readonly files: FilePort;
  readonly nowMs: () => number;
  readonly log: Logger;
}

/** Where this control plane has what it needs. */
export interface ImpostorFiles {
  readonly authorities: Readonly<Record<Authority, PairFiles>>;
  /** What each kind of door must let in: a door that refuses everybody proves nothing. */
  readonly genuine: Readonly<Record<DoorKind, PairFiles & { readonly path: string }>>;
}

export interface ImpostorWish {
  /** Of a node that is no member any more. */
  readonly nodeId: string;
  /** Whether it had the keys of a control plane: then what they make is tried as well. */
  readonly heldKeys: boolean;
}

/** One paper at one door. */
export interface Trial extends Verdict {
  readonly door: Door;
  readonly paper: PaperName;
  readonly authority: Authority;
}

export interface Trials {
  readonly trials: readonly Trial[];
  /** Names of nodes that are not there and were not asked. */
  readonly away: readonly string[];
}

/**
 * Shows papers in the name of a removed node at every door of every node that is there. They are made with the keys that
 * this control plane has, live a minute, and neither they nor their keys leave the memory of this process but as TLS.
 * @throws ImpostorError `impostor-is-member`: no member's name is ever borrowed
 */
export async function tryPapers(
  ports: ImpostorPorts,
  files: ImpostorFiles,
  wish: ImpostorWish,
  signal: AbortSignal,
): Promise<Trials> {
  await refuseMember(ports, wish.nodeId, signal);
  const { entries } = await ports.etcd.list(NODES_PREFIX, { signal });
  const { doors, away } = findDoors(entries, await ports.listMembers(signal));
  ports.log.warn('trying papers in the name of a removed node', { ...wish, doors: doors.length });
  const signers = await readSigners(ports, files);
  const papers = new Map<PaperName, Paper>();
  const wanted = (kind: DoorKind): readonly PaperName[] =>
    MANNERS[kind].papers.filter((name) => wish.heldKeys || name === 'node' || name === 'kubelet');
  for (const name of new Set(doors.flatMap(({ kind }) => wanted(kind))))
    papers.set(name, await makePaper(name, wish.nodeId, signers[AUTHORITY_OF[name]]));
  const trials = await inTurns(doors, async (door) => {
    const names = wanted(door.kind);
    const shut = await whyShut({ ports, files, signers }, door, signal);
    const to = { ...door, path: MANNERS[door.kind].path(wish.nodeId), serverCaPem: serverCa(signers, door) };
    const found: Trial[] = [];
    for (const name of names) {
      const paper = papers.get(name);
      const verdict =
        shut ?? (paper === undefined ? NOT_MADE : judge(door.kind, name, await knock(to, paper, signal)));
      signal.throwIfAborted();
      found.push({ door, paper: name, authority: AUTHORITY_OF[name], ...verdict });
    }
    return found;
  });
  return { trials: trials.flat(), away };
}

const NOT_MADE: Verdict = { outcome: 'unproved', said: 'no such paper was made' };

async function refuseMember({ etcd }: ImpostorPorts, nodeId: string, signal: AbortSignal): Promise<void> {
  if (!NODE_ID.test(nodeId))
    throw new ImpostorError(
      'impostor-request-invalid',
      `trying papers: ${JSON.stringify(nodeId.slice(0, 80))}`,
    );
  const key = records.node.key(nodeId);
  const entry = await etcd.get(key, { signal });
  if (entry !== undefined && isMemberState(records.node.decode(key, entry.value).state))
    throw new ImpostorError('impostor-is-member', `trying papers of ${nodeId}`);
}

type Signers = Readonly<Record<Authority, KeySigner>>;

async function readSigners(
  { files, nowMs }: ImpostorPorts,
  { authorities }: ImpostorFiles,
): Promise<Signers> {
  const read = async (name: Authority): Promise<readonly [Authority, KeySigner]> => {
    const { certPem: caPem, keyPem } = await readPair(files, authorities[name]);
    return [name, new KeySigner({ caPem, keyPem, nowMs })];
  };
  return Object.fromEntries(await Promise.all(AUTHORITIES.map(read))) as Signers;
}

function serverCa(signers: Signers, { kind }: Door): string {
  return signers[MANNERS[kind].server].caPem;
}

/** A door that does not let in who belongs there: nothing is proved at it. */
async function whyShut(
  { ports, files, signers }: { ports: ImpostorPorts; files: ImpostorFiles; signers: Signers },
  door: Door,
  signal: AbortSignal,
): Promise<Verdict | undefined> {
  const { path, ...pair } = files.genuine[door.kind];
  const genuine = await readPair(ports.files, pair);
  const answer = await knock({ ...door, path, serverCaPem: serverCa(signers, door) }, genuine, signal);
  if (answer.kind === 'status' && answer.status === 200) return undefined;
  const { said } = judge(door.kind, 'node', answer);
  return { outcome: 'unproved', said: `who belongs there is not let in either: ${said}` };
}

async function readPair(files: FilePort, { certFile, keyFile }: PairFiles): Promise<Paper> {
  const read = async (path: string): Promise<string> => {
    const bytes = await files.read(path, MAX_PEM_BYTES);
    if (bytes === undefined)
      throw new ImpostorError('impostor-not-here', `reading ${path}: it is not there`, { details: { path } });
    return Buffer.from(bytes).toString('utf8');
  };
  return { certPem: await read(certFile), keyPem: new Secret(await read(keyFile)) };
}

/** A few at a time: a cluster of a thousand kubelets is not to be stormed. The order stays. */
async function inTurns<T, R>(all: readonly T[], work: (each: T) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = [];
  const queue = all.entries();
  const worker = async (): Promise<void> => {
    for (const [index, each] of queue) results[index] = await work(each);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}
