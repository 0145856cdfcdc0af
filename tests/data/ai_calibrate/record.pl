#!/usr/bin/perl
# Writes perl_outputs.jsonl: what AI::Calibrate 1.5 returns and prints for random points, one case a line.
#
#     cpan AI::Calibrate && perl record.pl > perl_outputs.jsonl
use strict;
use warnings;
use AI::Calibrate 1.5 ':all';
use JSON::PP;

my $json = JSON::PP->new->canonical;
srand(1);
for (1 .. 250) {
    my $n      = (0, 1, 2, 3, 5, 8, 13, 21, 34)[rand 9];
    my $levels = (1, 3, 10, 100)[rand 4];                  # few levels make many ties
    my $shape  = (qw(none rising falling zeros ones))[rand 5];
    my $sorted = rand() < 0.3 ? 1 : 0;                      # the points stay in random order all the same
    my @points;
    for (1 .. $n) {
        my $level = int(rand(2 * $levels + 1)) - $levels;
        my $share = ($level / $levels + 1) / 2;
        my $p     = { none => 0.5, rising => $share, falling => 1 - $share, zeros => 0, ones => 1 }->{$shape};
        push @points, [$level / 10, rand() < $p ? 1 : 0];
    }
    my $mapping = calibrate(\@points, $sorted);
    my @scores  = ((map { $_->[0] } @points[0 .. ($n < 4 ? $n : 4) - 1]), -2e10, -0.05, 0, 0.123, 1e3);
    my $printed = '';
    open my $handle, '>', \$printed or die $!;
    my $before = select $handle;
    print_mapping($mapping);
    select $before;
    close $handle;
    # Scores are multiples of 0.001, which 15 digits (the default) give exactly; a probability needs 17.
    print $json->encode({
        sorted  => $sorted,
        points  => \@points,
        mapping => [map { [$_->[0] + 0, sprintf '%.17g', $_->[1]] } @$mapping],
        lookup  => [map { [$_, score_prob($mapping, $_) + 0] } @scores],
        printed => [split /\n/, $printed],
    }), "\n";
}
