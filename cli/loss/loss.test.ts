import { describe, expect, test } from '@jest/globals';
import { RecordingHost } from '../host/fake-host.ts';
import { confirmLoss } from './index.ts';

const loss = { doing: 'removing node n3', losses: ['its roles', 'its records'], yes: false };

describe('confirmLoss()', () => {
  test('refuses without a terminal, with an error that lists the loss', async () => {
    const host = new RecordingHost();
    await expect(confirmLoss({ host }, loss)).rejects.toMatchObject({
      code: 'loss-not-confirmed',
      exit: 'usage',
      message: 'removing node n3: nothing was changed; the consequences would be: its roles; its records',
      details: { losses: loss.losses },
    });
    expect(host.records).toEqual([]);
  });

  test('shows the loss, asks, and continues after a yes', async () => {
    const host = new RecordingHost({ answer: () => true });
    await confirmLoss({ host }, loss);
    expect(host.records).toMatchObject([
      { kind: 'say', text: 'Removing node n3 has these consequences:\n  - its roles\n  - its records' },
      { kind: 'confirm', answer: true },
    ]);
  });

  test('throws loss-declined if the user answers no', async () => {
    const host = new RecordingHost({ answer: () => false });
    await expect(confirmLoss({ host }, loss)).rejects.toMatchObject({ code: 'loss-declined' });
  });

  test('asks nothing with --yes or without a loss', async () => {
    const host = new RecordingHost();
    await confirmLoss({ host }, { ...loss, yes: true });
    await confirmLoss({ host }, { ...loss, losses: [] });
    expect(host.records).toEqual([]);
  });
});
