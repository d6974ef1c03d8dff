import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execPath } from 'node:process';
import { namespaceFile } from '../../../internal/localmachines/index.ts';
import { nodeIdOf, spkiDerOf } from '../../../internal/pki/index.ts';
import type { Harness } from '../../machines/harness.ts';
import type { Attack, StolenFiles, AttackRequest, AttackResult } from './attack-request.ts';
import type { AuditEntry, StoryCluster } from '../harness/story-cluster.ts';
import { etcdctlArgv, eventually } from '../harness/node-shell.ts';

const ATTACKER = join(import.meta.dirname, 'attacker.ts');
const ATTACK_MS = 60_000;

/** A machine that an attacker controls. The attacker runs a program in the network of the machine. */
export class CompromisedMachine {
  readonly stolen: Required<StolenFiles>;
  readonly nodeId: string;
  readonly #bench: Harness;
  readonly #network: string;
  readonly #orders: Pick<AttackRequest, 'endpoint' | 'address'>;

  private constructor(
    bench: Harness,
    has: {
      readonly loot: Required<StolenFiles>;
      readonly nodeId: string;
      readonly network: string;
      readonly orders: Pick<AttackRequest, 'endpoint' | 'address'>;
    },
  ) {
    this.#bench = bench;
    this.stolen = has.loot;
    this.nodeId = has.nodeId;
    this.#network = has.network;
    this.#orders = has.orders;
  }

  /** @param endpoint the join service that the attacker calls */
  static async compromise(bench: Harness, cluster: StoryCluster, name: string, endpoint: string) {
    const local = await bench.cluster(cluster.name);
    const { paths, address } = await local.node(name);
    const machine = join(paths.data, 'cluster/machine');
    const key = join(machine, 'key.pem');
    const pubKey = createPublicKey(createPrivateKey(await readFile(key, 'utf8')));
    return new CompromisedMachine(bench, {
      loot: { tpm: join(paths.tpm, 'run/tpm.sock'), key, sealed: join(machine, 'attestation-key.sealed') },
      nodeId: nodeIdOf(spkiDerOf(pubKey)),
      network: namespaceFile(local.network, name),
      orders: { endpoint, address },
    });
  }

  async attack(
    attack: Attack,
    more: Partial<Pick<AttackRequest, 'own' | 'others' | 'victim' | 'address'>> = {},
  ): Promise<AttackResult> {
    const orders: AttackRequest = { ...this.#orders, attack, own: this.stolen, ...more };
    const inside = ['nsenter', `--net=${this.#network}`, '--'] as const;
    const { stdout } = await this.#bench.machines.commands.run({
      argv: [...inside, execPath, '--disable-warning=ExperimentalWarning', ATTACKER],
      input: JSON.stringify(orders),
      signal: this.#bench.signal,
      timeoutMs: ATTACK_MS,
    });
    return JSON.parse(stdout) as AttackResult;
  }
}

/**
 * Everything that the cluster has issued to machines so far: records, names, etcd members, nodes and
 * certificates.
 */
export function issuedBy(cluster: StoryCluster): Promise<string> {
  const etcdctl = etcdctlArgv('root').join(' ');
  return cluster.sh(
    'n1',
    `${etcdctl} get --prefix --keys-only /cluster/ | grep -E '/(record$|node-names/|identities/)'
    ${etcdctl} member list
    kubectl get nodes -o name
    kubectl get csr -o jsonpath='{range .items[*]}{.status.certificate}{end}'
    journalctl --unit cluster-signer --output cat --no-pager | grep -c 'signed for a node' || true`,
  );
}

/** Asserts that a cluster under attack issues nothing and logs each refusal in its audit log. */
export class RefusalChecks {
  readonly #cluster: StoryCluster;
  #given = '';
  #seq = 0;

  constructor(cluster: StoryCluster) {
    this.#cluster = cluster;
  }

  /** Excludes everything that was issued or logged so far. */
  async begin(): Promise<void> {
    this.#given = await issuedBy(this.#cluster);
    const requests = (await this.#cluster.audit()).filter(({ log }) => log === 'requests');
    this.#seq = requests.at(-1)?.seq ?? 0;
  }

  async expectNothingGiven(): Promise<void> {
    assert.equal(await issuedBy(this.#cluster), this.#given);
  }

  /**
   * Asserts that the attack is refused with this code, that the audit log has the refusal, and that nothing
   * was issued.
   */
  async expect(
    attempt: Promise<AttackResult>,
    want: { readonly code: string; readonly audit?: string | RegExp },
  ): Promise<void> {
    assert.deepEqual(await attempt, { refused: want.code });
    await this.audited({ code: want.audit ?? want.code });
    await this.expectNothingGiven();
  }

  /** Waits until the audit log has a refusal with this code: a new one, or one about `subject`. */
  async audited(wanted: { readonly code: string | RegExp; readonly subject?: string }): Promise<AuditEntry> {
    const { code, subject } = wanted;
    const isCode = (found = ''): boolean => (typeof code === 'string' ? found === code : code.test(found));
    const isAbout = ({ log, seq, subject: about }: AuditEntry): boolean =>
      log === 'requests' && (subject === undefined ? seq > this.#seq : about === subject);
    const found = await eventually(
      `the audit log has a refusal with ${String(code)}`,
      20,
      async () =>
        (await this.#cluster.audit()).find(
          (entry) => isAbout(entry) && entry.detail.verdict === 'refused' && isCode(entry.detail.code),
        ),
      (entry) => entry !== undefined,
    );
    assert.ok(found !== undefined);
    this.#seq = Math.max(this.#seq, found.seq);
    return found;
  }
}
