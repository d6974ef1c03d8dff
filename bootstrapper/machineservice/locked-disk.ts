import type { MessageInitShape } from '@bufbuild/protobuf';
import { LockedDisk as LockedDiskApi, type DescribeResponseSchema } from '../../initproto/gen/disk_pb.js';
import { decryptWithTpm } from '../../internal/attestation/enrolment/index.ts';
import { PORTS } from '../../internal/endpoint/index.ts';
import { childSignal } from '../../internal/cleanup/index.ts';
import { describeError, findCoded, type CodedError } from '../../internal/errors/index.ts';
import { EventValue, when, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { implement, type Handlers } from '../../internal/rpc/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import {
  ownersNeeded,
  RECOVERY_SHARE_BYTES,
  SHARE_BYTES,
  type ConsoleChallenge,
  type OwnerRecovery,
} from '../../internal/statedisk/index.ts';
import type { MachineEvidence } from '../attest/index.ts';
import type { LockedDisk } from '../disk/index.ts';
import {
  createOwnerServer,
  createRefusingInitHandlers,
  type MachineDescriptionPorts,
  type OwnerPeer,
  type OwnerServerOptions,
} from '../initserver/index.ts';
import { keyOfCode, readCodes, type CodeSources } from './code-entry.ts';
import { MachineServiceError } from './errors.ts';
import { GivenShares } from './given-shares.ts';

/** Time for the response to reach the owner before the port closes. */
const CLOSE_MS = 2_000;
/** A challenge, or a key or share with its tag. */
const MAX_PART_BYTES = 4096;
/** The lengths of a recovery key and of a recovery share. */
const SECRET_BYTES = [SHARE_BYTES, RECOVERY_SHARE_BYTES];
/** The value of `DescribeResponse.enrolment_state`. The real state is unknown, because it is on the locked disk. */
const ENROLMENT_STATE = 'DiskLocked';

/** Ports (injected dependencies) of a machine whose state disk does not open. */
export interface LockedDiskPorts extends MachineDescriptionPorts {
  readonly evidence: MachineEvidence;
  readonly ownerKeys: OwnerServerOptions['ownerKeys'];
  readonly log: Logger;
  readonly device: string;
  /** Why the disk does not open now. */
  readonly reason: CodedError;
  /** Reads the data with which an owner recovers the disk. */
  read(signal: AbortSignal): Promise<LockedDisk>;
  /** Finds out how a code is entered at the machine; undefined: the disk has no data for that. Rejects only when the signal fires. */
  openConsole(signal: AbortSignal): Promise<ConsoleEntry | undefined>;
  /** Opens the disk with the recovery key (32 bytes). Rejects if the key is wrong, and then changes nothing. */
  recover(recoveryKey: Secret<Uint8Array>): Promise<void>;
}

/** The console of a machine whose state disk does not open. */
export interface ConsoleEntry {
  readonly commands: CommandRunner;
  readonly sources: CodeSources;
  readonly challenge: ConsoleChallenge;
  /** What the console shows. */
  readonly lines: readonly string[];
}

/**
 * Serves the init port and the console of a machine whose state disk does not open, until an owner has recovered the disk over one of them. Until then,
 * only the TPM identifies the machine, because the machine key and the records of its cluster are on the locked disk.
 */
export async function serveLockedDisk(ports: LockedDiskPorts, signal: AbortSignal): Promise<void> {
  const locked = createLockedDiskServer(ports, signal);
  await using server = locked.server;
  await server.listenEverywhere(PORTS.init);
  const { code } = ports.reason;
  ports.log.warn('waiting for an owner to recover the state disk', { port: PORTS.init, code });
  await untilRecovered(ports, locked, signal);
  await server.close(CLOSE_MS);
}

/** Reads codes at the console until the disk is recovered, over the console or over the server. */
export async function untilRecovered(
  { openConsole, clock, log }: Pick<LockedDiskPorts, 'openConsole' | 'clock' | 'log'>,
  { recover, recovered }: Pick<ReturnType<typeof createLockedDiskServer>, 'recover' | 'recovered'>,
  signal: AbortSignal,
): Promise<void> {
  using until = childSignal(signal);
  const read = async (): Promise<void> => {
    const entry = await openConsole(until.signal);
    if (entry === undefined) return;
    await readCodes({
      ...{ ...entry, clock, log, signal, until: until.signal },
      text: `${entry.lines.join('\n')}\n`,
      open: async (typed) => recover(keyOfCode(entry.challenge, typed)),
    });
  };
  const reading = Promise.allSettled([read()]); // ends with `until`, at the latest
  try {
    await when(recovered, () => true, signal);
  } finally {
    until.abort(new Error('the state disk is open'));
    await reading;
  }
}

/**
 * Takes the recovery key of the disk, or the recovery share of one owner, and opens the disk as soon as there are enough.
 * @returns how many more owners must act; 0 if the disk is open
 * @throws MachineServiceError `machineservice-share-refused`, DiskError: nothing was changed
 */
type Recover = (secret: Secret<Uint8Array>) => Promise<number>;

/** The server, what recovers the disk over it or otherwise, and a value that is set once the disk is open. */
export function createLockedDiskServer(
  ports: LockedDiskPorts,
  signal: AbortSignal,
): {
  readonly server: ReturnType<typeof createOwnerServer>;
  readonly recover: Recover;
  readonly recovered: Readable<true>;
} {
  const { evidence, device, log } = ports;
  const recovered = new EventValue<true>();
  const shares = new GivenShares();
  let last: Promise<unknown> = Promise.resolve();
  const recoverOnce: Recover = async (secret) => {
    if (recovered.peek().set) return 0;
    const locked = await ports.read(signal);
    const key = await shares.take(locked, secret);
    if (typeof key === 'number') {
      log.info('recovery share of an owner received', { device, missing: key });
      return key;
    }
    await ports.recover(key).catch((error: unknown) => {
      if (findCoded(error)?.code === 'disk-recovery-refused') shares.forget();
      throw error;
    });
    log.info('state disk recovered', { device, owners: ownersNeeded(locked.recovery) });
    recovered.set(true);
    return 0;
  };
  // Runs one recovery at a time. A recovery continues even if the connection of its caller ends.
  const recover: Recover = async (secret) => {
    const running = last.then(() => recoverOnce(secret));
    last = running.catch(() => undefined);
    return running;
  };
  const server = createOwnerServer(
    createRefusingInitHandlers(ports, { enrolmentState: ENROLMENT_STATE, reason: () => ports.reason }),
    {
      ...{ ...ports, shows: evidence.issuers },
      also: [implement(LockedDiskApi, lockedDiskHandlers(ports, { shares, recover }))],
    },
  );
  return { server, recovered, recover };
}

function lockedDiskHandlers(
  ports: LockedDiskPorts,
  { shares, recover }: { readonly shares: GivenShares; readonly recover: Recover },
): Handlers<typeof LockedDiskApi, OwnerPeer> {
  const { device, evidence } = ports;
  return {
    describe: async (_request, { signal }) => {
      const locked = await ports.read(signal);
      return {
        ...{ device, uuid: locked.uuid, code: ports.reason.code, message: describeError(ports.reason) },
        ...recoveryOf(locked.recovery),
        given: shares.countFor(locked),
        registers: locked.registers.map((register) => ({ ...register })),
      };
    },
    recover: async (request, { peer, signal }) => {
      const secret = await decryptKey(request, (envelope) =>
        decryptWithTpm(envelope, peer.session, (challenge, session) =>
          evidence.answerChallenge(challenge, session, signal),
        ),
      );
      return { missing: await recover(secret) };
    },
  };
}

function recoveryOf(
  recovery: OwnerRecovery,
): Pick<MessageInitShape<typeof DescribeResponseSchema>, 'recovery' | 'threshold' | 'shares'> {
  if (recovery.kind === 'key') return { recovery: recovery.sealed };
  const { threshold, shares } = recovery;
  return { threshold, shares: shares.map(({ sealed }) => sealed) };
}

type Envelope = Parameters<typeof decryptWithTpm>[0];

async function decryptKey(
  { challenge, nonce, ciphertext }: { readonly [part in keyof Envelope]: Uint8Array },
  decrypt: (envelope: Envelope) => Promise<Secret<Uint8Array>>,
): Promise<Secret<Uint8Array>> {
  if ([challenge, nonce, ciphertext].some(({ length }) => length > MAX_PART_BYTES))
    throw new MachineServiceError(
      'machineservice-recovery-key-unreadable',
      'reading the recovery key: too long',
    );
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const envelope = { challenge: base64(challenge), nonce: base64(nonce), ciphertext: base64(ciphertext) };
  const key = await decrypt(envelope).catch((cause: unknown) => {
    throw new MachineServiceError('machineservice-recovery-key-unreadable', 'decrypting the recovery key', {
      cause,
    });
  });
  if (SECRET_BYTES.includes(key.reveal().length)) return key;
  throw new MachineServiceError(
    'machineservice-recovery-key-unreadable',
    `reading the recovery key: not ${SECRET_BYTES.join(' or ')} bytes`,
  );
}
