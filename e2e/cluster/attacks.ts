import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execPath } from 'node:process';
import { namespaceFile } from '../../internal/machines/index.ts';
import { nodeIdOf, spkiOf } from '../../internal/pki/index.ts';
import type { Bench } from '../machines/bench.ts';
import type { Attack, Loot, Orders, Outcome } from './attacker-orders.ts';
import type { AuditEntry, JoiningCluster } from './joining.ts';
import { etcdctlArgv, eventually } from './node-shell.ts';

const ATTACKER = join(import.meta.dirname, 'attacker.ts');
const ATTACK_MS = 60_000;

/** A machine in the hands of somebody who runs a program of their own there, in the machine's network. */
export class TakenMachine {
  readonly loot: Required<Loot>;
  readonly nodeId: string;
  readonly #bench: Bench;
  readonly #network: string;
  readonly #orders: Pick<Orders, 'endpoint' | 'address'>;

  private constructor(
    bench: Bench,
    has: {
      readonly loot: Required<Loot>;
      readonly nodeId: string;
      readonly network: string;
      readonly orders: Pick<Orders, 'endpoint' | 'address'>;
    },
  ) {
    this.#bench = bench;
    this.loot = has.loot;
    this.nodeId = has.nodeId;
    this.#network = has.network;
    this.#orders = has.orders;
  }

  /** @param endpoint of the join service that is attacked */
  static async take(bench: Bench, cluster: JoiningCluster, name: string, endpoint: string) {
    const local = await bench.cluster(cluster.name);
    const { paths, address } = await local.node(name);
    const machine = join(paths.data, 'cluster/machine');
    const key = join(machine, 'key.pem');
    const pubKey = createPublicKey(createPrivateKey(await readFile(key, 'utf8')));
    return new TakenMachine(bench, {
      loot: { tpm: join(paths.tpm, 'run/tpm.sock'), key, sealed: join(machine, 'attestation-key.sealed') },
      nodeId: nodeIdOf(spkiOf(pubKey)),
      network: namespaceFile(local.network, name),
      orders: { endpoint, address },
    });
  }

  async attack(
    attack: Attack,
    more: Partial<Pick<Orders, 'own' | 'others' | 'victim'>> = {},
  ): Promise<Outcome> {
    const orders: Orders = { ...this.#orders, attack, own: this.loot, ...more };
    const inside = ['nsenter', `--net=${this.#network}`, '--'] as const;
    const { stdout } = await this.#bench.machines.commands.run({
      argv: [...inside, execPath, '--disable-warning=ExperimentalWarning', ATTACKER],
      input: JSON.stringify(orders),
      signal: this.#bench.signal,
      timeoutMs: ATTACK_MS,
    });
    return JSON.parse(stdout) as Outcome;
  }
}

/** What a cluster has given to machines so far: records, names, members of etcd, nodes and certificates. */
export function givenBy(cluster: JoiningCluster): Promise<string> {
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

/** What a cluster must not do when it is attacked: give something, or forget that it refused. */
export class Refusals {
  readonly #cluster: JoiningCluster;
  #given = '';
  #seq = 0;

  constructor(cluster: JoiningCluster) {
    this.#cluster = cluster;
  }

  /** From here on: what was given until now was right. */
  async begin(): Promise<void> {
    this.#given = await givenBy(this.#cluster);
    this.#seq = (await this.#cluster.audit()).at(-1)?.seq ?? 0;
  }

  async expectNothingGiven(): Promise<void> {
    assert.equal(await givenBy(this.#cluster), this.#given);
  }

  /** The attacker learns the code, the audit has the refusal, and nothing is given. */
  async expect(
    attempt: Promise<Outcome>,
    want: { readonly code: string; readonly audit?: string | RegExp },
  ): Promise<void> {
    assert.deepEqual(await attempt, { refused: want.code });
    await this.audited({ code: want.audit ?? want.code });
    await this.expectNothingGiven();
  }

  /** Waits for a refusal in the audit: a new one, or one about this machine. */
  async audited(wanted: { readonly code: string | RegExp; readonly subject?: string }): Promise<AuditEntry> {
    const { code, subject } = wanted;
    const isCode = (found = ''): boolean => (typeof code === 'string' ? found === code : code.test(found));
    const isAbout = ({ seq, subject: about }: AuditEntry): boolean =>
      subject === undefined ? seq > this.#seq : about === subject;
    const found = await eventually(
      `the audit has ${String(code)}`,
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
