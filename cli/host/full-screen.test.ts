import { PassThrough } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import { openFullScreen } from './full-screen.ts';
import type { ScreenEvents } from './screen-port.ts';

/** A terminal that keeps what was written to it. */
function createTerminal() {
  const modes: boolean[] = [];
  const keyboard = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (isRaw: boolean) => void modes.push(isRaw),
  });
  const out = Object.assign(new PassThrough(), { isTTY: true, columns: 80, rows: 24 });
  const written = (): string => String(out.read() ?? '');
  return { keyboard, out, modes, written };
}

function open(
  terminal = createTerminal(),
  more: { env?: Record<string, string>; events?: Partial<ScreenEvents> } = {},
) {
  const restores: (() => void)[] = [];
  const events = { onKey: () => undefined, onResize: () => undefined, ...more.events };
  const screen = openFullScreen(
    {
      streams: { in: terminal.keyboard, out: terminal.out, err: terminal.out },
      env: { TERM: 'xterm', LANG: 'C.UTF-8', ...more.env },
      onExit: (restore) => {
        restores.push(restore);
        return () => void restores.splice(restores.indexOf(restore), 1);
      },
    },
    events,
  );
  return { screen, restores, ...terminal };
}

const LEAVE = '\u001b[0m\u001b[?7h\u001b[?25h\u001b[?1049l';

describe('openFullScreen()', () => {
  test('takes the terminal, and restores it once when it is disposed', () => {
    const { screen, modes, written, restores, keyboard, out } = open();
    expect(written()).toContain('\u001b[?1049h');
    screen![Symbol.dispose]();
    expect(written()).toBe(LEAVE);
    screen![Symbol.dispose]();
    expect([written(), modes, restores.length]).toEqual(['', [true, false], 0]);
    expect([keyboard.listenerCount('data'), out.listenerCount('resize')]).toEqual([0, 0]);
  });

  test('restores the terminal when the process exits first', () => {
    const { screen, modes, written, restores } = open();
    written();
    restores[0]!();
    expect([written(), modes]).toEqual([LEAVE, [true, false]]);
    screen!.draw([[{ text: 'late' }]]);
    screen![Symbol.dispose]();
    expect(written()).toBe('');
  });

  test.each([
    {
      name: 'no keyboard',
      change: (terminal: ReturnType<typeof createTerminal>) => (terminal.keyboard.isTTY = false),
    },
    {
      name: 'output to a file',
      change: (terminal: ReturnType<typeof createTerminal>) => (terminal.out.isTTY = false),
    },
  ])('returns undefined with $name', ({ change }) => {
    const terminal = createTerminal();
    change(terminal);
    expect(open(terminal).screen).toBeUndefined();
    expect([terminal.written(), terminal.modes]).toEqual(['', []]);
  });

  test('returns undefined on a terminal that cannot move its cursor', () => {
    expect(open(createTerminal(), { env: { TERM: 'dumb' } }).screen).toBeUndefined();
  });

  test('passes keys and resizes on', () => {
    const seen: string[] = [];
    const events = { onKey: (key: string) => void seen.push(key), onResize: () => void seen.push('resize') };
    const { screen, keyboard, out } = open(createTerminal(), { events });
    keyboard.emit('data', Buffer.from('q\u001b[A'));
    out.emit('resize');
    screen![Symbol.dispose]();
    expect(seen).toEqual(['q', 'up', 'resize']);
  });
});

describe('FullScreen.draw()', () => {
  test('sends only lines that have changed, and all of them after a resize', () => {
    const { screen, written, out } = open();
    written();
    screen!.draw([[{ text: 'one' }], [{ text: 'two' }]]);
    expect(written()).toBe('\u001b[1;1Hone\u001b[2;1Htwo');
    screen!.draw([[{ text: 'one' }], [{ text: 'new' }]]);
    expect(written()).toBe('\u001b[2;1Hnew');
    screen!.draw([[{ text: 'one' }], [{ text: 'new' }]]);
    expect(written()).toBe('');
    out.emit('resize');
    screen!.draw([[{ text: 'one' }]]);
    expect(written()).toBe('\u001b[2J\u001b[1;1Hone');
    screen![Symbol.dispose]();
  });

  test('lets no text control the terminal', () => {
    const { screen, written } = open();
    written();
    screen!.draw([[{ text: '\u001b]0;x\u0007\u009b2J\r\n', style: 'red' }]]);
    expect(written()).toBe('\u001b[1;1H\u001b[31m?]0;x??2J↵\u001b[39m');
    screen![Symbol.dispose]();
  });

  test('writes ASCII if the locale has no more', () => {
    const { screen, written } = open(createTerminal(), { env: { LANG: 'C' } });
    written();
    screen!.draw([[{ text: '● █░ é' }]]);
    expect(written()).toBe('\u001b[1;1H* #. ?');
    screen![Symbol.dispose]();
  });
});
