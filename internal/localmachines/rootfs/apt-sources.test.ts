import { describe, expect, test } from '@jest/globals';
import { aptSourcesFor } from './apt-sources.ts';

const deb822 = `# comment
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEX
`;

const cases = [
  {
    name: 'accepts deb822 sources with the updates and security suites',
    files: [{ path: '/etc/apt/sources.list.d/debian.sources', text: deb822 }],
    want: [
      'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm main',
      'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm-updates main',
      'deb http://mirror.example/debian-security bookworm-security main',
    ],
  },
  {
    name: 'accepts one-line sources with options and comments',
    files: [
      {
        path: '/etc/apt/sources.list',
        text: [
          '# deb http://old.example/debian bookworm main',
          'deb-src http://mirror.example/debian bookworm main',
          'deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib # ours',
        ].join('\n'),
      },
    ],
    want: ['deb [signed-by=/k.gpg] http://mirror.example/debian bookworm main'],
  },
  {
    name: 'ignores sources of another distribution',
    files: [{ path: '/etc/apt/sources.list', text: 'deb http://mirror.example/ubuntu noble main universe' }],
    want: [],
  },
  {
    name: 'ignores a third-party source with the same suite name but without main',
    files: [{ path: '/etc/apt/sources.list', text: 'deb http://other.example bookworm stable' }],
    want: [],
  },
  {
    name: 'returns nothing for the updates suite alone, which is not sufficient for a root file system',
    files: [
      { path: '/etc/apt/sources.list', text: 'deb http://mirror.example/debian bookworm-updates main' },
    ],
    want: [],
  },
  {
    name: 'ignores a disabled stanza',
    files: [
      {
        path: '/a.sources',
        text: `Enabled: no\n${deb822.split('\n\n')[0]?.replace('# comment\n', '') ?? ''}`,
      },
    ],
    want: [],
  },
  {
    name: 'returns a source that is listed twice only once',
    files: [
      { path: '/a.list', text: 'deb http://m.example/debian bookworm main' },
      { path: '/b.list', text: 'deb http://m.example/debian bookworm main' },
    ],
    want: ['deb http://m.example/debian bookworm main'],
  },
];

describe('aptSourcesFor()', () => {
  test.each(cases)('aptSourcesFor() $name', ({ files, want }) => {
    expect(aptSourcesFor('bookworm', files)).toEqual(want);
  });
});
