import { describe, expect, test } from '@jest/globals';
import { RecordingHost } from '../host/fake-host.ts';
import { confirmStop, showStop } from './manage-machines.ts';

const stop = { name: 'mini', node: 'n1', powerCut: false, dryRun: false, yes: false };
const cut = { ...stop, powerCut: true };
const no = () => new RecordingHost({ answer: () => false });

describe('cluster mini stop', () => {
  test('asks at a terminal before it cuts the power, unless --yes was given', async () => {
    await expect(confirmStop({ host: no() }, cut)).rejects.toMatchObject({ code: 'loss-declined' });
    await confirmStop({ host: no() }, { ...cut, yes: true });
  });

  test('asks nothing before a graceful shutdown, and nothing in a script', async () => {
    await confirmStop({ host: no() }, stop);
    await confirmStop({ host: new RecordingHost() }, cut);
  });

  test('with --dry-run shows what is lost', () => {
    const host = new RecordingHost();
    showStop({ host }, { ...cut, dryRun: true });
    expect(host.answered).toMatchObject({ node: 'n1', dryRun: true, losses: [expect.any(String)] });
  });
});
