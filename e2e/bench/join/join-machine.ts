import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import {
  atlsClientUpgrade,
  REJECT_ALL_RULES,
  RotatingKeys,
  type AttestedPeer,
  type EvidenceRules,
  JOIN_CONTEXT,
} from '../../../internal/atls/index.ts';
import { MachineKeyValidator } from '../../../internal/attestation/machinekey/index.ts';
import { TpmValidator } from '../../../internal/attestation/tpm/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import {
  encodeTicketStatement,
  machineKeyStatement,
  ticketEvidenceBinding,
} from '../../../internal/crypto/index.ts';
import {
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  nodeIdOf,
  pubKeyDerOf,
  spkiDerOf,
} from '../../../internal/pki/index.ts';
import { createClient, RpcChannel, type Client } from '../../../internal/rpc/index.ts';
import { keyHardware, type MachineHardware } from '../../../internal/testing/index.ts';
import { Join, type AdmissionEvent, type Ticket } from '../../../joinservice/joinproto/gen/join_pb.js';

const clock = new SystemClock();
const never = new AbortController().signal;
/** Accepts any join service, because this bench does not measure how a machine verifies it. */
export const ANY_MACHINE: EvidenceRules = {
  policy: {
    ...REJECT_ALL_RULES.policy,
    machines: 'any',
    tpm: {
      attestationKeys: 'enrolling',
      requiredPcrs: [0],
      requireSafeClock: false,
      eventLog: 'optional',
      loggedPcrs: [],
    },
  },
  collateral: { tpm: { attestationKeys: new Map() } },
};
/** Long time limits, because one process plays all machines at once and is slower than a real machine. */
const PATIENCE = { tlsMs: 60_000, helloMs: 60_000, wholeMs: 120_000, lingerMs: 500 };

/** One session of attested TLS. */
interface BenchSession extends Disposable {
  readonly client: Client<typeof Join>;
  /** The 64 bytes to which proofs of this session are bound. */
  readonly session: Uint8Array;
}

/** A machine with its own key and address. It performs all steps of a join. */
export class BenchMachine {
  readonly identity: string;
  readonly nodeId: string;
  readonly name: string;
  /**
   * The source address of this machine's connections. Each machine has its own, because the join service limits each
   * source.
   */
  readonly #source: string;
  /**
   * The node address that the machine reports. It is not the source address, because a node cannot have a loopback
   * address.
   */
  readonly #address: string;
  readonly #privKey: KeyObject;
  readonly #pubKeyDer: Uint8Array;
  readonly #hardware: MachineHardware;
  readonly #tlsKeys = new RotatingKeys({ clock });
  #ticketKeys: Awaited<ReturnType<BenchMachine['makeKeys']>> | undefined;
  /** The ID of the cluster that the machine has joined. */
  #clusterId = '';

  /** @param hardware by default, the machine's own key without a TPM */
  constructor(index: number, hardware?: MachineHardware) {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    this.#privKey = privateKey;
    this.#pubKeyDer = spkiDerOf(publicKey);
    this.#hardware = hardware ?? keyHardware(privateKey);
    this.identity = `machine-key:${fingerprintOfKey(this.#pubKeyDer).replace('sha256:', '')}`;
    this.nodeId = nodeIdOf(this.#pubKeyDer);
    this.name = `m-${index}`;
    const place = `${Math.floor(index / 250)}.${(index % 250) + 1}`;
    this.#source = `127.1.${place}`;
    this.#address = `198.18.${place}`;
  }

  /** Creates the keys that a real machine creates before it calls the join service, on its own processor. */
  async prepare(): Promise<void> {
    await this.#tlsKeys.current();
    this.#ticketKeys = await this.makeKeys();
  }

  /**
   * Joins as the agent does, up to the ticket. The first session gets the admission. Then the machine takes the node
   * lock. Another session proves the node lock and requests the ticket. A failed step is not retried.
   */
  async join(host: string, port: number): Promise<Ticket> {
    {
      using first = await this.#dial(host, port);
      this.#clusterId = await this.#admission(first);
      await this.#hardware.lock(this.#clusterId);
    }
    using locked = await this.#dial(host, port);
    return await locked.client.issueJoinTicket(
      {
        key: this.#proof(locked.session),
        joinId: this.nodeId,
        keys: await this.#ask(locked.session),
      },
      { signal: never },
    );
  }

  /** Renews the certificates of the member, as its agent does: one session with new evidence, and a ticket. */
  async renew(host: string, port: number): Promise<Ticket> {
    using session = await this.#dial(host, port);
    return await session.client.issueRejoinTicket(
      {
        key: this.#proof(session.session),
        address: this.#address,
        keys: await this.#ask(session.session),
      },
      { signal: never },
    );
  }

  async makeKeys() {
    return {
      kubeletClientCsr: await createCertificateRequest(generateKeyPem(), 'client'),
      kubeletServingCsr: await createCertificateRequest(generateKeyPem(), 'serving'),
      sealingPublicKey: pubKeyDerOf(generateKeyPem()),
    };
  }

  /** The ticket request: the statement, and evidence that is bound to it. */
  async #ask(session: Uint8Array) {
    const keys = this.#ticketKeys ?? (await this.makeKeys());
    const [address, roles, timeMs] = [this.#address, ['KubernetesWorker'], clock.nowMs()];
    const statement = encodeTicketStatement({
      ...{ clusterId: this.#clusterId, session, ...keys, address, roles, timeMs },
      nodePubKeyDer: this.#pubKeyDer,
    });
    const { issuer } = this.#hardware;
    const document = await issuer.issue(ticketEvidenceBinding(statement), never);
    const evidence = [{ variant: issuer.variant, document }];
    const signature = this.#sign(statement);
    return { ...keys, address, roles, timeMs: BigInt(timeMs), signature, evidence };
  }

  async #dial(host: string, port: number): Promise<BenchSession> {
    const peer = Promise.withResolvers<AttestedPeer>();
    peer.promise.catch(() => undefined);
    const upgrade = atlsClientUpgrade({
      trust: {
        trust: 'mutual',
        shows: [this.#hardware.issuer],
        accepts: [new MachineKeyValidator({ fingerprints: 'any' }), new TpmValidator()],
        rules: () => ANY_MACHINE,
      },
      context: JOIN_CONTEXT,
      keys: this.#tlsKeys,
      clock,
      timers: PATIENCE,
    });
    const own = async (tcp: Socket, signal: AbortSignal) => {
      try {
        tcp.destroy(); // replaces the socket of grpc, because grpc cannot choose the source address
        const socket = connect({ host, port, localAddress: this.#source, noDelay: true });
        await once(socket, 'connect');
        const upgraded = await upgrade(socket, signal);
        peer.resolve(upgraded.peer);
        return upgraded;
      } catch (error) {
        peer.reject(error);
        throw error;
      }
    };
    const channel = new RpcChannel({ endpoint: `${host}:${port}`, upgrade: own });
    channel.grpc.getChannel().getConnectivityState(true); // connects now instead of at the first call
    try {
      const { session } = await peer.promise;
      const client = createClient(Join, channel);
      return { client, session, [Symbol.dispose]: () => channel[Symbol.dispose]() };
    } catch (error) {
      channel[Symbol.dispose]();
      throw error;
    }
  }

  /** Returns the ID of the cluster that admitted the machine. */
  async #admission({ client, session }: BenchSession): Promise<string> {
    const challenged = Promise.withResolvers<Uint8Array | undefined>();
    const hello = {
      key: this.#proof(session),
      agentVersion: '0.1.0',
      hostname: this.name,
      address: this.#address,
      nowMs: BigInt(clock.nowMs()),
      enrolment: await this.#hardware.enrolment(),
    };
    async function* says() {
      yield { message: { case: 'hello', value: hello } } as const;
      const answer = await challenged.promise;
      if (answer !== undefined) yield { message: { case: 'challengeAnswer', value: { answer } } } as const;
    }
    let clusterId = '';
    try {
      for await (const { event } of client.requestAdmission(says(), { signal: never })) {
        if (event.case === 'cluster') clusterId = event.value.clusterId;
        const answer = await this.#answer(event, session);
        if (answer !== undefined) challenged.resolve(answer);
        if (event.case === 'admitted') return clusterId;
      }
    } finally {
      challenged.resolve(undefined);
    }
    throw new Error('the stream ended without an admission');
  }

  async #answer(event: AdmissionEvent['event'], session: Uint8Array): Promise<Uint8Array | undefined> {
    if (event.case !== 'challenge') return undefined;
    return this.#hardware.answer(event.value.challenge, session);
  }

  #proof(session: Uint8Array) {
    return { publicKey: this.#pubKeyDer, signature: this.#sign(machineKeyStatement(session)) };
  }

  #sign(statement: Uint8Array): Uint8Array {
    return new Uint8Array(sign(undefined, statement, this.#privKey));
  }
}
