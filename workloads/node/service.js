// SPDX-License-Identifier: Apache-2.0
// A table of objects that is made once; each request turns one of its hot tenth into JSON and back: service.js OBJECTS REQUESTS
"use strict";

const [objects, requests] = process.argv.slice(2).map(Number);
let state = 1;
const random = (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
};
const table = [];
for (let id = 0; id < objects; id++) {
    table.push({ id, name: `object ${id}`, values: Array.from({ length: 32 }, () => random(1000)) });
}
const taken = new Float64Array(requests);
const begun = process.hrtime.bigint();
let sum = 0;
for (let nr = 0; nr < requests; nr++) {
    const asked = process.hrtime.bigint();
    const answer = JSON.parse(JSON.stringify(table[random(Math.max(1, Math.floor(objects / 10)))]));
    sum += answer.values[0];
    taken[nr] = Number(process.hrtime.bigint() - asked) / 1e6;
}
const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
taken.sort();
console.log(JSON.stringify({ roi_s: seconds, ops_per_s: requests / seconds, p99_ms: taken[Math.floor(requests * 0.99)], sum }));
