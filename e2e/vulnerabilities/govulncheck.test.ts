import { expect, test } from '@jest/globals';
import { parseGovulncheck } from './govulncheck.ts';

const CONFIG = { config: { protocol_version: 'v1.0.0', scan_level: 'symbol', scan_mode: 'binary' } };
const NET = { module: 'golang.org/x/net', version: 'v0.55.0' };
const finding = (frame: object, osv = 'GO-2026-0001') => ({ finding: { osv, trace: [frame] } });
const printed = (...messages: readonly object[]) =>
  messages.map((each) => `${JSON.stringify(each, undefined, 2)}\n`).join('');

test('parseGovulncheck() counts vulnerable functions, each vulnerability of a module once', () =>
  expect(
    parseGovulncheck(
      printed(
        CONFIG,
        { progress: { message: '{ Scanning }' } },
        finding(NET),
        finding({ ...NET, package: 'golang.org/x/net/html' }),
        finding({ ...NET, package: 'golang.org/x/net/html', function: 'Parse' }),
        finding({ ...NET, package: 'golang.org/x/net/html', function: 'Render' }),
        finding({ ...NET, package: 'golang.org/x/net/http2' }, 'GO-2026-0002'),
      ),
      'kubelet',
    ),
  ).toEqual([{ id: 'GO-2026-0001', what: 'golang.org/x/net@v0.55.0', where: 'kubelet' }]));

test.each([
  { what: 'nothing', text: '' },
  { what: 'no configuration', text: printed({ progress: { message: 'x' } }) },
  { what: 'a scan of modules only', text: printed({ config: { scan_level: 'module' } }) },
  { what: 'half of a message', text: printed(CONFIG, finding(NET)).slice(0, -4) },
])('parseGovulncheck() refuses $what', ({ text }) =>
  expect(() => parseGovulncheck(text, 'kubelet')).toThrow(),
);
