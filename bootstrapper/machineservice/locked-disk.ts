import { LockedDisk as LockedDiskApi } from '../../initproto/gen/disk_pb.js';
import { decryptWithTpm } from '../../internal/attestation/enrolment/index.ts';
import { PORTS } from '../../internal/endpoint/index.ts';
import type { CodedError } from '../../internal/errors/index.ts';
import { EventValue, when, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { implement, type Handlers } from '../../internal/rpc/index.ts';
import type { Secret } from '../../internal/secret/index.ts';
import type { MachineEvidence } from '../attest/index.ts';
import type { LockedDisk } from '../disk/index.ts';
import {
  createOwnerServer,
  createRefusingInitHandlers,
  type MachineDescriptionPorts,
  type OwnerPeer,
  type OwnerServerOptions,
} from '../initserver/index.ts';
import { MachineServiceError } from './errors.ts';

/** Time for the response to reach the owner before the port closes. */
const CLOSE_MS = 2_000;
/** A challenge, or a key of 32 bytes with its tag. */
const MAX_PART_BYTES = 4096;
const KEY_BYTES = 32;
/** The value of `DescribeResponse.enrolment_state`. The real state is unknown, because it is on the locked disk. */
const ENROLMENT_STATE = 'DiskLocked';

/** Ports (injected dependencies) of a machine whose state disk does not open. */
export interface LockedDiskPorts extends MachineDescriptionPorts {
  readonly evidence: MachineEvidence;
  readonly ownerKeys: OwnerServerOptions['ownerKeys'];
  readonly log: Logger;
  readonly device: string;
  /** Why the disk does not open. */
  readonly reason: CodedError;
  /** Reads the data with which an owner recovers the disk. */
  read(signal: AbortSignal): Promise<LockedDisk>;
  /** Opens the disk with the recovery key (32 bytes). Rejects if the key is wrong, and then changes nothing. */
  recover(recoveryKey: Secret<Uint8Array>): Promise<void>;
}

/**
 * Serves the init port of a machine whose state disk does not open, until an owner has recovered the disk. Until then,
 * only the TPM identifies the machine, because the machine key and the records of its cluster are on the locked disk.
 */
export async function serveLockedDisk(ports: LockedDiskPorts, signal: AbortSignal): Promise<void> {
  const { server: created, recovered } = createLockedDiskServer(ports);
  await using server = created;
  await server.listen('0.0.0.0', PORTS.init);
  const { code } = ports.reason;
  ports.log.warn('waiting for an owner to recover the state disk', { port: PORTS.init, code });
  await when(recovered, () => true, signal);
  await server.close(CLOSE_MS);
}

/** The server, and a value that is set once the disk is open. */
export function createLockedDiskServer(ports: LockedDiskPorts): {
  readonly server: ReturnType<typeof createOwnerServer>;
  readonly recovered: Readable<true>;
} {
  const { evidence, reason } = ports;
  const recovered = new EventValue<true>();
  const server = createOwnerServer(
    createRefusingInitHandlers(ports, { enrolmentState: ENROLMENT_STATE, reason }),
    {
      ...{ ...ports, shows: evidence.issuers },
      also: [implement(LockedDiskApi, lockedDiskHandlers(ports, recovered))],
    },
  );
  return { server, recovered };
}

function lockedDiskHandlers(
  ports: LockedDiskPorts,
  recovered: EventValue<true>,
): Handlers<typeof LockedDiskApi, OwnerPeer> {
  const { device, reason, evidence, log } = ports;
  let last: Promise<void> = Promise.resolve();
  const recoverOnce = async (recoveryKey: Secret<Uint8Array>): Promise<void> => {
    if (recovered.peek().set) return;
    await ports.recover(recoveryKey);
    log.info('state disk recovered by an owner', { device });
    recovered.set(true);
  };
  return {
    describe: async (_request, { signal }) => {
      const { uuid, recovery, registers } = await ports.read(signal);
      return {
        ...{ device, uuid, recovery, code: reason.code, message: reason.message },
        registers: registers.map((register) => ({ ...register })),
      };
    },
    recover: async (request, { peer, signal }) => {
      const recoveryKey = await decryptKey(request, (envelope) =>
        decryptWithTpm(envelope, peer.session, (challenge, session) =>
          evidence.answerChallenge(challenge, session, signal),
        ),
      );
      // Runs one recovery at a time. A recovery continues even if the connection of its caller ends.
      const running = last.then(() => recoverOnce(recoveryKey));
      last = running.catch(() => undefined);
      await running;
      return {};
    },
  };
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
  if (key.reveal().length === KEY_BYTES) return key;
  throw new MachineServiceError(
    'machineservice-recovery-key-unreadable',
    'reading the recovery key: not 32 bytes',
  );
}
