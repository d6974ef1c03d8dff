import { afterEach, describe, expect, test } from '@jest/globals';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ExecaRunner } from '../internal/exec/index.ts';

const directories: string[] = [];
afterEach(async () => {
  for (const each of directories.splice(0)) await rm(each, { recursive: true, force: true });
});

/** The agent uses fixed paths, so the test runs it in a mount namespace of its own. */
const setUp = [
  'mount -t tmpfs tmpfs /etc',
  'mount -t tmpfs tmpfs /run',
  'mount -t tmpfs tmpfs /var/lib',
  'mkdir -p /etc/cluster',
  'eval "$PREPARE"',
  'exec "$@"',
].join(' && ');

/**
 * Starts the agent as systemd does, with programs that record what it tells systemd.
 * @param prepare a shell command that provisions the machine
 */
async function startAgent(prepare: string) {
  const directory = await mkdtemp(join(tmpdir(), 'failed-start-'));
  directories.push(directory);
  const told = join(directory, 'told');
  await writeFile(told, '');
  for (const name of ['systemd-notify', 'systemctl', 'agetty']) {
    const program = join(directory, name);
    await writeFile(program, `#!/bin/sh\nfor arg in "$@"; do echo "${name} $arg" >> ${told}; done\n`);
    await chmod(program, 0o755);
  }
  const path = `${directory}:${process.env['PATH'] ?? ''}`;
  const main = join(import.meta.dirname, 'main.ts');
  const { exitCode } = await new ExecaRunner({ path }).run({
    argv: ['unshare', '--mount', 'sh', '-c', setUp, 'sh', process.execPath, '--no-warnings', main],
    env: { PREPARE: prepare, NOTIFY_SOCKET: '/run/systemd/notify' },
    okExitCodes: Array.from({ length: 256 }, (_, code) => code),
    timeoutMs: 60_000,
    signal: new AbortController().signal,
  });
  const lines = (await readFile(told, 'utf8')).split('\n');
  return { exitCode, statuses: lines.filter((line) => line.startsWith('systemd-notify --status=')) };
}

/** A machine whose TPM does not exist. */
const withoutTpm = JSON.stringify({
  version: 1,
  platform: 'metal',
  ownerKeys: [Buffer.alloc(32, 1).toString('base64')],
  tpm: { kind: 'device', path: '/dev/tpm-that-is-missing' },
});

describe('an agent that cannot start', () => {
  test('shows code, cause and fix in the status of its unit, and is not restarted until an operator acts', async () => {
    const { exitCode, statuses } = await startAgent(`echo '{"owner":1}' > /etc/cluster/provisioning.json`);
    const unit = await readFile(join(import.meta.dirname, '../.ci/package/bootstrapper.service'), 'utf8');
    expect(unit).toContain(`\nRestartPreventExitStatus=${exitCode}\n`);
    expect(statuses).toEqual([
      expect.stringMatching(
        /^systemd-notify --status=config-provisioning-invalid: .*owner.*\. Fix: Correct the keys /,
      ),
    ]);
  }, 60_000);

  test('is restarted if that can help, and shows the reason meanwhile', async () => {
    const { exitCode, statuses } = await startAgent('mkdir /etc/cluster/provisioning.json');
    expect(exitCode).not.toBe(78);
    expect(exitCode).not.toBe(0);
    expect(statuses).toEqual([
      expect.stringMatching(/^systemd-notify --status=file-[a-z-]+: .*provisioning\.json.* Fix: /),
    ]);
  }, 60_000);

  // The agent waits 30 s for the driver of the TPM first.
  test('shows why its TPM is unusable, and is not restarted until an operator acts', async () => {
    const { exitCode, statuses } = await startAgent(`echo '${withoutTpm}' > /etc/cluster/provisioning.json`);
    expect(statuses).toEqual([
      expect.stringMatching(
        /^systemd-notify --status=preflight-tpm-unusable: .*TPM \/dev\/tpm-that-is-missing unusable: .*ENOENT.* Fix: /,
      ),
    ]);
    expect(exitCode).toBe(78);
  }, 120_000);
});
