import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { appendFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env, execPath } from 'node:process';
import { test } from 'node:test';
import type { Policy } from '../../../internal/attestation/index.ts';
import { ExecaRunner } from '../../../internal/exec/index.ts';
import {
  hex,
  identityPolicy,
  judge as judgeAs,
  measuredPolicy,
  verdictOf,
  type Judgement,
} from './evidence.ts';
import { bootMachine, createBootDirectory } from './machine.ts';
import { referenceValues } from './reference-values.ts';

/**
 * A QEMU machine performs a real measured boot: its firmware, kernel and initrd are measured into a TPM. The
 * agent in the initrd proves these measurements over attested TLS. The story verifies them with reference
 * values that it computed from the booted files.
 */
const PROJECT = join(import.meta.dirname, '../../..');
const COMMAND_LINE = 'console=ttyS0 quiet panic=-1';
const BUILD_MS = 1_200_000;
const commands = new ExecaRunner({ path: env['PATH'] ?? '' });
const signal = new AbortController().signal;
const owner = generateKeyPairSync('ed25519');
const judge = (endpoint: string, policy: Policy): Promise<Judgement> =>
  judgeAs(owner.privateKey, endpoint, policy);

await test('a measured boot is accepted by values computed from its files, and every other boot is refused', async (story) => {
  const directory = await mkdtemp(join(tmpdir(), 'cluster-measured-'));
  const log = join(tmpdir(), 'cluster-measured-boot.log');
  const tpm = join(directory, 'tpm');
  await mkdir(tpm);
  try {
    await run('swtpm_setup', '--tpm2', '--tpmstate', tpm, '--pcr-banks', 'sha256', '--create-ek-cert');
    await run(execPath, join(PROJECT, '.ci/build.ts'));
    const boot = await createBootDirectory(join(directory, 'boot'), {
      agent: join(PROJECT, 'dist/cluster-agent_0.1.0_amd64.deb'),
      provisioning: {
        version: 1,
        platform: 'metal',
        ownerKeys: [owner.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64')],
        tpm: { kind: 'device', path: '/dev/tpmrm0' },
        address: '198.18.200.15',
      },
    });
    let boots = 0;
    const judgeBoot = async (
      change: { readonly commandLine?: string },
      ...policies: readonly Policy[]
    ): Promise<readonly Judgement[]> => {
      await using machine = await bootMachine(join(directory, `boot-${++boots}`), {
        boot,
        commandLine: change.commandLine ?? COMMAND_LINE,
        tpm,
        log,
      });
      const judgements: Judgement[] = [];
      for (const policy of policies) judgements.push(await judge(machine.endpoint, policy));
      return judgements;
    };

    let wanted: ReadonlyMap<number, Uint8Array> = new Map();
    await story.test('the first boot has the PCR values that were computed from its files', async () => {
      await using machine = await bootMachine(join(directory, `boot-${++boots}`), {
        boot,
        commandLine: COMMAND_LINE,
        tpm,
        log,
      });
      const seen = verdictOf(await judge(machine.endpoint, identityPolicy()));
      const pcr0 = seen.measurements.get('pcr0');
      assert.ok(pcr0);
      wanted = referenceValues(machine.files, pcr0);
      for (const [pcr, value] of wanted)
        assert.equal(hex(seen.measurements.get(`pcr${pcr}`)), hex(value), `pcr${pcr}`);
      const unused = [...seen.measurements].filter(([name]) => !wanted.has(Number(name.slice(3))));
      for (const [name, value] of unused) assert.match(hex(value), /^0+$/, name);
      const judged = verdictOf(await judge(machine.endpoint, measuredPolicy(wanted)));
      const passed = judged.checks.filter(
        ({ name, outcome }) => name.startsWith('register-') && outcome === 'pass',
      );
      assert.equal(passed.length, wanted.size, 'every used register was compared');
    });

    await story.test(
      'the next boot of the same files is accepted with the same reference values',
      async () => {
        const [again] = await judgeBoot({}, measuredPolicy(wanted));
        assert.ok(again);
        verdictOf(again);
      },
    );

    await story.test('a boot with one changed byte in the kernel command line is refused', async () => {
      const [changed] = await judgeBoot(
        { commandLine: COMMAND_LINE.replace('-1', '-2') },
        measuredPolicy(wanted),
      );
      assertRefused(changed, wanted);
    });

    await story.test(
      'a changed agent in the initrd is refused by measurement, and accepted by a policy that checks the identity only',
      async () => {
        await appendFile(join(boot.root, 'usr/lib/cluster/bootstrapper.mjs'), '\n');
        const [changed, identity] = await judgeBoot({}, measuredPolicy(wanted), identityPolicy());
        assertRefused(changed, wanted);
        assert.ok(identity);
        verdictOf(identity);
      },
    );
  } finally {
    await rm(directory, { recursive: true });
  }
});

/**
 * Asserts that the boot was refused because of PCR 4 or 9. A changed command line or initrd changes PCR 9 first; an
 * initrd of another size changes PCR 4, because QEMU writes its load address into the kernel image.
 */
function assertRefused(judgement: Judgement | undefined, wanted: ReadonlyMap<number, Uint8Array>): void {
  assert.ok(judgement && 'code' in judgement, 'the changed boot was accepted');
  assert.match(judgement.code, /attestation-register-mismatch/);
  const { register, expected, actual } = judgement.details;
  assert.ok(register === 'pcr4' || register === 'pcr9', `refused for ${String(register)}`);
  assert.equal(expected, hex(wanted.get(Number(register.slice(3)))));
  assert.match(String(actual), /^[0-9a-f]{64}$/);
  assert.notEqual(actual, expected);
}

async function run(...argv: [string, ...string[]]): Promise<void> {
  await commands.run({ argv, signal, timeoutMs: BUILD_MS });
}
