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
/** Judging the join service is not what is measured here: any key will do. */
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
/** One process is all machines at once; each of them alone would be faster. */
const PATIENCE = { tlsMs: 60_000, helloMs: 60_000, wholeMs: 120_000, lingerMs: 500 };

/** One session of attested TLS. */
interface BenchSession extends Disposable {
  readonly client: Client<typeof Join>;
  /** The 64 bytes that its proofs are bound to. */
  readonly session: Uint8Array;
}

/** A machine with a key and an address of its own, and what it took to become a member. */
export class BenchMachine {
  readonly identity: string;
  readonly nodeId: string;
  readonly name: string;
  readonly #address: string;
  readonly #privKey: KeyObject;
  readonly #pubKeyDer: Uint8Array;
  readonly #hardware: MachineHardware;
  readonly #tlsKeys = new RotatingKeys({ clock });
  #ticketKeys: Awaited<ReturnType<BenchMachine['makeKeys']>> | undefined;

  /** @param hardware its own key unless said */
  constructor(index: number, hardware?: MachineHardware) {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    this.#privKey = privateKey;
    this.#pubKeyDer = spkiDerOf(publicKey);
    this.#hardware = hardware ?? keyHardware(privateKey);
    this.identity = `machine-key:${fingerprintOfKey(this.#pubKeyDer).replace('sha256:', '')}`;
    this.nodeId = nodeIdOf(this.#pubKeyDer);
    this.name = `m-${index}`;
    this.#address = `127.1.${Math.floor(index / 250)}.${(index % 250) + 1}`;
  }

  /** What a real machine has done before it calls, on a processor of its own. */
  async prepare(): Promise<void> {
    await this.#tlsKeys.current();
    this.#ticketKeys = await this.makeKeys();
  }

  /**
   * From the first byte to the ticket, as the agent does it: a session for the admission, the lock, and another session
   * that shows the lock, for the commit. No retry.
   */
  async join(host: string, port: number): Promise<Ticket> {
    let clusterId: string;
    {
      using first = await this.#dial(host, port);
      clusterId = await this.#admission(first);
      await this.#hardware.lock(clusterId);
    }
    using locked = await this.#dial(host, port);
    return await locked.client.issueJoinTicket(
      {
        key: this.#proof(locked.session),
        joinId: this.nodeId,
        keys: await this.#ask({ clusterId, session: locked.session }),
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

  /** The statement, with the evidence over it. */
  async #ask(at: { readonly clusterId: string; readonly session: Uint8Array }) {
    const keys = this.#ticketKeys ?? (await this.makeKeys());
    const [address, roles, timeMs] = [this.#address, ['KubernetesWorker'], clock.nowMs()];
    const statement = encodeTicketStatement({
      ...{ ...at, ...keys, address, roles, timeMs },
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
        tcp.destroy(); // grpc's own, which cannot choose where it comes from
        const socket = connect({ host, port, localAddress: this.#address, noDelay: true });
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
    channel.grpc.getChannel().getConnectivityState(true); // connects now, not with the first call
    try {
      const { session } = await peer.promise;
      const client = createClient(Join, channel);
      return { client, session, [Symbol.dispose]: () => channel[Symbol.dispose]() };
    } catch (error) {
      channel[Symbol.dispose]();
      throw error;
    }
  }

  /** Answers the id of the cluster that let it in. */
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
