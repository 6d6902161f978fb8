const test = require('node:test');
const assert = require('node:assert');
const { square } = require('local');

test('square', () => assert.strictEqual(square(4), 16));
